"""Numba's form of kernels, and the passes that compile them. Importing this module imports Numba.

Numba's other passes take more time than the generation of machine code.

Kernels have no closures, no ``with``, no loops over literals and no expressions of whole arrays, so the passes that rewrite these
find nothing. Numba types a call by trying all functions of that name, most of which fail with a formatted message, and tries them
again whenever the type of an argument is refined. Here it remembers the result.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, Protocol

from numba.core import ir, types
from numba.core.compiler import CompilerBase, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.errors import CompilerError
from numba.core.ir_utils import build_definitions
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import IRLegalization, NativeLowering, NoPythonBackend, NopythonTypeInference
from numba.core.typing.context import Context
from numba.core.untyped_passes import FixupArgs, TranslateByteCode
from numba.extending import intrinsic

from state_processor.serializers.kernel.compiling.generation import Operations, Part, Whole, plain_signature


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):  # type: ignore[misc]
    """Numba's pass that generates the code of a function."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[Operations]:
        """The generator of code."""
        return Operations


class _RememberingContext(Context):  # type: ignore[misc]
    """Numba's context for typing with the signatures of calls whose types were seen before."""

    @classmethod
    def over(cls, context: Any) -> _RememberingContext:
        """Return a context that shares all content with Numba's."""
        remembering: _RememberingContext = object.__new__(cls)
        remembering.__dict__ = context.__dict__
        return remembering

    def resolve_value_type(self, val: Any) -> Any:
        """Return the type of a constant."""
        if type(val) not in _TYPED_ONCE:
            return super().resolve_value_type(val)
        value_type = _value_types.get(val)
        if value_type is None:
            value_type = _value_types[val] = super().resolve_value_type(val)
        return value_type

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        if type(func) is not types.Function or kws:
            return super().resolve_function_type(func, args, kws)
        plain = tuple(map(types.unliteral, args))
        key = func, plain if all(isinstance(argument, types.Number | types.Boolean) for argument in plain) else tuple(args)
        signature = _signatures.get(key)
        if signature is None:
            signature = plain_signature(func.typing_key, key[1]) or super().resolve_function_type(func, key[1], kws)
            if signature is not None:
                _signatures[key] = signature
        return signature


_TYPED_ONCE: Final = (BuiltinFunctionType, ModuleType, type)
"""Types of constants that have one type of Numba."""
_value_types: Final[dict[Any, Any]] = {}
_signatures: Final[dict[Any, Any]] = {}
"""Signatures of calls of Numba's functions, by the function and the types of arguments."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _FewerStatements(FunctionPass):  # type: ignore[misc]
    """Shorten Numba's form of a function: each statement is typed and becomes code.

    Members of enumerations of numbers become numbers, a branch tests its condition without a call of ``bool``, and a result is
    assigned to its variable directly.
    """

    _name = "fewer_statements"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Shorten all blocks."""
        function = state.func_ir
        blocks = function.blocks.values()
        globals_ = {
            a.target.name: a.value.value for block in blocks for a in _assignments(block) if isinstance(a.value, ir.Global)
        }
        for block in blocks:
            _name_numbers(block, globals_)
            _test_directly(block, globals_)
        mentions = Counter(v.name for block in blocks for statement in block.body for v in statement.list_vars())
        for block in blocks:
            block.body = list(_assigned_directly(block.body, mentions))
        function._definitions = build_definitions(function.blocks)
        return True


def _assignments(block: Any) -> Iterator[Any]:
    return block.find_insts(ir.Assign)  # type: ignore[no-any-return]


def _name_numbers(block: Any, globals_: dict[str, Any]) -> None:
    """Replace constants by numbers whose type is not their value, so that a variable may have several of them."""
    for assignment in _assignments(block):
        value, number = assignment.value, None
        if isinstance(value, ir.Expr) and value.op == "getattr":
            constants = globals_.get(value.value.name)
            number = constants[value.attr] if isinstance(constants, type) and issubclass(constants, IntEnum) else None
        elif isinstance(value, ir.Global | ir.Const):
            number = value.value
        if type(number) is int or isinstance(number, IntEnum):
            assignment.value = ir.Const(int(number), value.loc, use_literal_type=False)


def _test_directly(block: Any, globals_: dict[str, Any]) -> None:
    branch = block.body[-1]
    if not isinstance(branch, ir.Branch):
        return
    for assignment in _assignments(block):
        call = assignment.value
        is_call = assignment.target.name == branch.cond.name and isinstance(call, ir.Expr) and call.op == "call"
        if is_call and globals_.get(call.func.name) is bool:
            branch.cond = call.args[0]
            block.body.remove(assignment)
            return


_SET_AND_READ: Final = 2
"""Mentions of a variable that is assigned once and read once."""


def _assigned_directly(statements: list[Any], mentions: Counter[str]) -> Iterator[Any]:
    """Yield statements without unused constants, and without temporary variables that the next statement assigns."""
    pending = None
    for statement in statements:
        if pending is not None:
            if (
                isinstance(statement, ir.Assign)
                and isinstance(statement.value, ir.Var)
                and statement.value.name == pending.target.name
            ):
                yield ir.Assign(pending.value, statement.target, statement.loc)
                pending = None
                continue
            yield pending
            pending = None
        if isinstance(statement, ir.Assign) and statement.target.is_temp:
            name = statement.target.name
            if mentions[name] == 1 and isinstance(statement.value, ir.Global | ir.Const):
                continue
            if mentions[name] == _SET_AND_READ and isinstance(statement.value, ir.Expr | ir.Const):
                pending = statement
                continue
        yield statement
    if pending is not None:
        yield pending


@register_pass(mutates_CFG=False, analysis_only=True)
class _Ends(IRLegalization):  # type: ignore[misc]
    """Mark where variables end in functions that make arrays. Other functions count no references, so nothing ends."""

    _name = "ends"

    def run_pass(self, state: Any) -> bool:
        """Insert the ends of variables. Refuse variables that Numba made fractions to hold signed and unsigned numbers."""
        for name, value_type in state.typemap.items():
            if isinstance(value_type, types.Float):
                raise CompilerError(
                    f"{name} of the kernel {state.func_id.func_qualname} is not a whole number: convert its values"
                )
        return bool(state.targetctx.enable_nrt and super().run_pass(state))


_PASSES: Final = (
    TranslateByteCode,
    FixupArgs,
    _FewerStatements,
    NopythonTypeInference,
    _Ends,
    _Lowering,
    NoPythonBackend,
)


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with the passes that kernels need."""

    def __init__(self, typing_context: Any, *options: Any) -> None:
        context = _RememberingContext.over(typing_context)
        super().__init__(context, *options)
        self.state.targetctx.typing_context = context

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = PassManager("kernel")
        for compiler_pass in _PASSES:
            passes.add_pass(compiler_pass, compiler_pass._name)
        passes.finalize()
        return [passes]


class PartCompiler(KernelCompiler):
    """The same with a :class:`Part` for the code."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *options: Any) -> None:
        super().__init__(typing_context, target_context, Part(target_context.codegen(), "part"), *options)


class Compilable(Protocol):
    """A function to compile, with Numba's options; see :class:`~state_processor.serializers.kernel.compiler.Kernel`."""

    py_func: Callable[..., Any]
    options: dict[str, Any]
    numba_form: Any


class _PartDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that kernels call, for types of arguments without their constants."""

    def __init__(self, kernel: Compilable) -> None:
        super().__init__(kernel.py_func, {}, kernel.options, pipeline_class=PartCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how other kernels call the function with arguments of these types."""
        return super().get_call_template(list(map(types.unliteral, args)), kws)

    def add_overload(self, cres: Any) -> None:
        """Keep compiled code out of the table of functions that Python calls."""
        self.overloads[tuple(cres.signature.args)] = cres


def dispatcher_of(kernel: Compilable) -> Any:
    """Return the dispatcher of a function; threads that ask at the same time get the same."""
    with global_compiler_lock:
        if kernel.numba_form is None:
            kernel.numba_form = _PartDispatcher(kernel)
        return kernel.numba_form


def object_code(kernel: Compilable, arguments: Sequence[Any], symbol: str, *, from_python: bool) -> bytes:
    """Compile a function for types of arguments, and return an object file that defines ``symbol``.

    ``from_python``: the symbol is a function for :class:`~state_processor.serializers.kernel.compiling.machine_code.Calls`.
    Otherwise kernels call it.
    """
    with global_compiler_lock, _without_collection():
        flags = Flags()
        cpu_target.options.parse_as_flags(flags, kernel.options)
        whole = Whole(cpu_target.target_context.codegen(), symbol, from_python=from_python)
        compile_extra(
            cpu_target.typing_context,
            cpu_target.target_context,
            kernel.py_func,
            args=tuple(arguments),
            return_type=None,
            flags=flags,
            locals={},
            library=whole,
            pipeline_class=KernelCompiler,
        )
        return whole.object_code


@contextmanager
def _without_collection() -> Iterator[None]:
    """Run a block without the garbage collector: the compiler keeps almost all of its many objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def provide_memory() -> None:
    """Define the functions of Numba that make arrays, for kernels that are loaded."""
    with global_compiler_lock:
        rtsys.initialize(cpu_target.target_context)


def type_of_intrinsic(definition: Callable[..., Any]) -> tuple[Any, Any]:
    """Return an intrinsic of Numba and its type in kernels. Keep the intrinsic as long as the type is used."""
    instruction = intrinsic(definition)
    context = cpu_target.typing_context
    context.refresh()
    return instruction, context.resolve_value_type(instruction)
