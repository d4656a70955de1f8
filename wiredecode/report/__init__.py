"""A report: one self-contained HTML page about a capture (docs/report.md).

:class:`~wiredecode.report.gather.Gathering` receives the frames in a first pass,
:class:`~wiredecode.report.sequence.Sequence` those of one connection in a second, and
:func:`~wiredecode.report.page.page` puts what both found on a page.
"""
