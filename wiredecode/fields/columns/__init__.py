"""The third reader of declarations: one field of thousands of frames at a time, as Arrow arrays. Needs pyarrow."""
