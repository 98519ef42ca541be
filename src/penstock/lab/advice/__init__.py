"""The changes that would help a program most, each computed by the model that gave the first answer.

A remedy is a change of one kind (`remedy.KINDS`), with the figure before and after, and the command that shows it.
The modules `simulated`, `predicted` and `measured` find remedies of a simulated point, of a prediction and of a run.
"""

from __future__ import annotations
