"""Functions that are compiled as a part of others: typed and lowered once, optimised with each caller, never alone.

Numba makes machine code of every function, and optimises called functions again in each caller, level by level. Here
only functions that Python calls go through all that, once, with everything that they call. Parts have no other
callers then, so unused arguments are not passed.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import NopythonTypeInference


class _NoCodegen:
    """Code generation of a part, which never runs alone and so has no environment."""

    def set_env(self, name: str, env: object) -> None:
        """Do nothing: there is no environment to set."""


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


class _SeldomPart(_Part):
    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Add a function that is never inlined, as it is not called where time counts."""
        for function in ir_module.functions:
            if not function.is_declaration:
                function.attributes.add("noinline")
                function.attributes.add("cold")
        super().add_ir_module(ir_module)


class _OftenPart(_Part):
    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Add a function that is always inlined, however large it is."""
        for function in ir_module.functions:
            if not function.is_declaration:
                function.attributes.add("alwaysinline")
        super().add_ir_module(ir_module)


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = llvm.Linkage.internal
        super()._optimize_final_module()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return its machine code and the names in it, without its intermediate code: callers use parts."""
        name, kind, (code, _) = super().serialize_using_object_code()
        names, final = ir.Module(), self._final_module
        for symbol in chain(final.functions, final.global_variables):
            if not symbol.is_declaration and symbol.linkage not in (llvm.Linkage.internal, llvm.Linkage.private):
                ir.GlobalVariable(names, ir.IntType(8), symbol.name).initializer = ir.Constant(ir.IntType(8), 0)
        return name, kind, (code, llvm.parse_assembly(str(names)).as_bitcode())


class _LibraryPass(AnalysisPass):  # type: ignore[misc]
    """Compiler pass that selects the library class of the lowered code."""

    library: type[JITCodeLibrary]

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _PartPass(_LibraryPass):
    _name = "as_part"
    library = _Part


@register_pass(mutates_CFG=False, analysis_only=True)
class _SeldomPartPass(_LibraryPass):
    _name = "as_seldom_part"
    library = _SeldomPart


@register_pass(mutates_CFG=False, analysis_only=True)
class _OftenPartPass(_LibraryPass):
    _name = "as_often_part"
    library = _OftenPart


@register_pass(mutates_CFG=False, analysis_only=True)
class _WholePass(_LibraryPass):
    _name = "as_whole"
    library = _Whole


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with another use of the final code."""

    library_pass: type[_LibraryPass]

    def define_pipelines(self) -> list[Any]:
        """Return the only pipeline."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(self.library_pass, NopythonTypeInference)
        passes.finalize()
        return [passes]


class PartCompiler(_Compiler):
    """Compiler of functions that become part of their callers."""

    library_pass = _PartPass


class SeldomPartCompiler(_Compiler):
    """Compiler of rarely called functions: they are separate, once for all callers."""

    library_pass = _SeldomPartPass


class OftenPartCompiler(_Compiler):
    """Compiler of functions called so often that the call itself would cost: they are inlined into each caller."""

    library_pass = _OftenPartPass


class WholeCompiler(_Compiler):
    """Compiler of functions that Python calls, with all their parts."""

    library_pass = _WholePass
