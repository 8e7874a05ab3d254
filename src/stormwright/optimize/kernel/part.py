"""Functions that are compiled as a part of others: typed and lowered once, optimised with each caller, never alone.

Numba makes machine code of every function, and optimises in each caller anew what that calls, level by level. Here only
functions that Python calls go through all that, once, with everything that they call.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import NopythonTypeInference


class _NoCodegen:
    """A part runs nowhere by itself, so it has no environment to run in."""

    def set_env(self, name: str, env: object) -> None:
        """Nothing to set."""


class _Part(JITCodeLibrary):  # type: ignore[misc]
    codegen = _NoCodegen()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        self._ensure_finalized()
        return 0


@register_pass(mutates_CFG=False, analysis_only=True)
class _AsPart(AnalysisPass):  # type: ignore[misc]
    _name = "as_part"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


class PartCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's way, but for what becomes of the code in the end."""

    def define_pipelines(self) -> list[Any]:
        """The one way there is."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_AsPart, NopythonTypeInference)
        passes.finalize()
        return [passes]
