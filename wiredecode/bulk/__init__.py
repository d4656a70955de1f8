"""Many frames at a time: columns instead of an object per frame. See docs/architecture.md, "Bulk"."""
