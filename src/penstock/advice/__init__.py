"""The changes that would help a program most, each computed by the model that gave the first answer.

A remedy is a change of one kind (`remedy.KINDS`), with the figure before and after, and the command that shows it.
`simulated` has those of a simulated point, `predicted` those of a prediction, `measured` those of a run.
"""

from __future__ import annotations
