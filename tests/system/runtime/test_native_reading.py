"""The workloads on the native reading, with keys in memory and with keys on disk, at their ci size."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

