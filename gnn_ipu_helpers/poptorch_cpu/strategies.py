"""How a model would be shared out among IPUs. Kept, so that scripts run; without effect on a CPU."""

from __future__ import annotations

from typing import Any

from .enums import AutoStage, Liveness


class Stage:
    """Blocks that run together on one IPU."""

    def __init__(self, *block_ids: str) -> None:
        self._blocks = list(block_ids)
        self._ipu = -1

    @property
    def blocks(self) -> list[str]:
        """The names of the blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> Stage:
        """Run on this IPU."""
        self._ipu = ipu
        return self


class Phase:
    """Stages that run at the same time."""

    def __init__(self, *arg: Any) -> None:
        self._stages = [item if isinstance(item, Stage) else Stage(item) for item in arg]

    def stage(self, idx: int) -> Stage:
        """The stage at this place."""
        return self._stages[idx]

    def ipus(self, *ipus: int) -> Phase:
        """Run the stages on these IPUs, in order."""
        if len(ipus) != len(self._stages):
            raise ValueError(f"A phase of {len(self._stages)} stages needs as many IPUs (got {len(ipus)}).")
        for stage, ipu in zip(self._stages, ipus):
            stage.ipu(ipu)
        return self


class _Strategy:
    def __init__(self, *args: Any) -> None:
        self._parts = args or (AutoStage.SameAsIpu,)

    def backendOptions(self) -> dict[str, Any]:
        """What is handed to the IPU's compiler: nothing here."""
        return {}


class PipelinedExecution(_Strategy):
    """Mini-batches follow one another through the IPUs."""


class ShardedExecution(PipelinedExecution):
    """One IPU after the other, one mini-batch at a time."""


class ParallelPhasedExecution(_Strategy):
    """Phases that alternate between IPUs."""

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> ParallelPhasedExecution:
        """Move tensors off the chip between forward and backward."""
        self._off_chip = off_chip
        return self


class SerialPhasedExecution(_Strategy):
    """Phases one after the other on the same IPUs."""

    def setTensorsLiveness(self, liveness: Liveness) -> SerialPhasedExecution:
        """Where tensors stay between phases."""
        self._liveness = Liveness(liveness)
        return self
