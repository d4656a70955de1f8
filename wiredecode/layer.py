"""Layers, under the name that packages of other people import them by; they live in :mod:`wiredecode.fields.layer`."""

from wiredecode.fields.layer import Added as Added
from wiredecode.fields.layer import Layer as Layer
from wiredecode.fields.layer import Range as Range
from wiredecode.fields.layer import Style as Style
