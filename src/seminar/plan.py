"""A configuration -> the numbers it implies, before anything runs: the door to the plan of each method."""

from seminar import plan_draft, plan_mada
from seminar.config import Config
from seminar.config_mada import MadaConfig
from seminar.errors import ConfigError
from seminar.plan_table import DEVICES, Plan


def plan(config: Config, *, device: str | None = None) -> Plan:
    """What `config` implies; memory and arithmetic are estimates (device None: cpu or h200, by
    base.device)."""
    device = device or ("cpu" if config.base.device == "cpu" else "h200")
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; known are {', '.join(DEVICES)}.")
    if isinstance(config, MadaConfig):
        return plan_mada.plan(config, device=device)
    return plan_draft.plan(config, device=device)
