"""``wiredecode ui``: captures on a full screen; a list of frames, the tree and the bytes of the selected one."""
