"""Generation of the code of kernels, in LLVM's language.

Numba's code for elements of arrays, calls and loops serves arrays of any layout, indexes from the end, and functions that raise
errors. LLVM removes most of this code. This takes longer than all else. Kernels have contiguous arrays, indexes that are never
negative, and ranges without a step. So here an access is a load or a store, and a variable that is assigned once needs no memory.
A call passes an array as its address and its shape. Sums and products wrap, as in interpreted kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import getitem
from typing import Any, Final

from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.callconv import excinfo_ptr_t
from numba.core.cgutils import alloca_once, get_or_insert_function
from numba.core.codegen import JITCodeLibrary
from numba.core.errors import CompilerError
from numba.core.lowering import Lower
from numba.core.typing.templates import signature

from state_processor.serializers.kernel.compiling.machine_code import DATA_WORD, RESULT_WORDS, SHAPE_WORD, ResultKind

_WORD: Final = llvm.IntType(64)
_STATUS: Final = llvm.IntType(32)
_PROBLEM: Final = 1
"""The argument of a kernel with the address of an error; the first is the address of the result."""
_FIRST: Final = 2
"""The first argument of a kernel that Python sees."""
_DONE: Final = (0, -2)
"""The states of a call that ended without an error: with a result, and with ``None``."""


_NO_WRAP: Final = "nsw"
"""Numba's mark of sums and products that may not overflow, so that LLVM omits tests of their signs."""
_RANGE_WITH_STEP: Final = 3
_PARTS_OF_PAIRS: Final = ("pair_first", "pair_second")


PLAIN_FUNCTIONS: Final = (len, min, max, abs, int)
"""Functions of Python that are a few instructions."""


def plain_signature(function: Any, arguments: Sequence[Any]) -> Any:
    """Return the signature of a call of one of :data:`PLAIN_FUNCTIONS` with whole numbers; ``None`` for other calls."""
    if function is len or function not in PLAIN_FUNCTIONS or any(type_ != types.int64 for type_ in arguments):
        return None
    return signature(types.int64, *arguments)


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that its callers link, without optimization and machine code of its own."""

    fails = True
    """Whether the function may end with an error."""

    def finalize(self) -> None:
        """Leave the parts of this part, and the optimization, to the kernels that need machine code."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Link the parts of this part. Return 0: no function has an address."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Part:
        """The receiver of :meth:`set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: a kernel needs no objects of Python."""


class Whole(Part):
    """The code of a kernel and of all its parts, as an object file that defines a symbol.

    ``from_python``: the symbol is called with an array of words, one for each argument, and returns whether memory is missing. A
    number is a word, an array the address of its ``__array_struct__``. The first two words receive the type of the result and the
    result. Otherwise the symbol is the kernel itself.
    """

    def __init__(self, codegen: Any, symbol: str, *, from_python: bool) -> None:
        super().__init__(codegen, symbol)
        self._from_python = from_python
        self.object_code = b""

    def export(self, context: Any, description: Any) -> None:
        """Define the symbol."""
        self._kernel = description.llvm_func_name
        if self._from_python:
            self.add_ir_module(_called_with_words(context, description, self.name))

    def finalize(self) -> None:
        """Link all parts and generate the machine code."""
        libraries = list(self._linking_libraries)
        for library in libraries:  # which grows
            libraries += [part for part in library._linking_libraries if part not in libraries]
        self._linking_libraries = libraries
        super(Part, self).finalize()

    def _optimize_final_module(self) -> None:
        kernel = self._final_module.get_function(self._kernel)
        if self._from_python:
            # LLVM would change the arguments of an internal function, which makes the decode kernel an eighth slower
            kernel.name, kernel.linkage = f"{self.name}_body", "linkonce_odr"
        else:
            kernel.name = self.name
        super(Part, self)._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._verify_declare_only_symbols()
        self._finalized = True
        self.object_code = self._codegen._tm.emit_object(self._final_module)


def _is_plain(type_: Any) -> bool:
    """Return whether a type is an array of whole numbers, whose elements are in the order of their indexes."""
    return isinstance(type_, types.Array) and type_.layout == "C" and isinstance(type_.dtype, types.Integer)


def _are_numbers(types_: Sequence[Any]) -> bool:
    return all(isinstance(type_, types.Integer) for type_ in types_)


def _members_of(type_: Any) -> Sequence[Any]:
    """Return the types of the numbers of an index."""
    return type_.types if isinstance(type_, types.BaseTuple) else (type_,)  # type: ignore[attr-defined]


def _is_range(type_: Any) -> bool:
    return isinstance(type_, types.RangeType) and type_.dtype == types.int64


def _declared(context: Any, module: Any, description: Any) -> Any:
    """Return a kernel in a module. It returns its state, and receives where its result and an error go before its arguments."""
    arguments = [word for type_ in description.argtypes for word in _types_of_words(context, type_)]
    places = [context.call_conv.get_return_type(description.restype), excinfo_ptr_t.as_pointer()]
    type_ = llvm.FunctionType(_STATUS, places + arguments)
    function = get_or_insert_function(module, type_, description.mangled_name)
    for place in function.args[:_FIRST]:
        place.add_attribute("noalias")
    if description.inline:
        function.attributes.add("alwaysinline")
    return function


def _types_of_words(context: Any, type_: Any) -> Sequence[Any]:
    if _is_plain(type_):
        return context.get_data_type(type_.dtype).as_pointer(), *[_WORD] * type_.ndim
    return context.get_arg_packer([type_]).argument_types  # type: ignore[no-any-return]


def _words_of(context: Any, builder: Any, type_: Any, value: Any) -> Sequence[Any]:
    """Return the words of an argument of a kernel."""
    if not _is_plain(type_):
        return context.get_arg_packer([type_]).as_arguments(builder, [value])  # type: ignore[no-any-return]
    position = context.data_model_manager[type_].get_field_position
    data, shape = position("data"), position("shape")
    sizes = [builder.extract_value(value, [shape, dimension]) for dimension in range(type_.ndim)]
    return builder.extract_value(value, data), *sizes


def _array_of(context: Any, builder: Any, type_: Any, words: Sequence[Any]) -> Any:
    """Return Numba's form of an array, without an owner."""
    data, *shape = words
    position = context.data_model_manager[type_].get_field_position
    item = _WORD(context.get_abi_sizeof(context.get_data_type(type_.dtype)))
    strides, elements = [item], shape[-1]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    for size in shape[:-1]:
        elements = builder.mul(elements, size)
    array = context.get_value_type(type_)(None)
    for name, value in (("nitems", elements), ("itemsize", item), ("data", data)):
        array = builder.insert_value(array, value, position(name))
    for name, values in (("shape", shape), ("strides", strides)):
        for dimension, value in enumerate(values):
            array = builder.insert_value(array, value, [position(name), dimension])
    return array


def _called_with_words(context: Any, description: Any, symbol: str) -> Any:
    """Return a module with the function of :class:`Whole` for calls from Python."""
    module = context.create_module(symbol)
    function = llvm.Function(module, llvm.FunctionType(_STATUS, [_WORD.as_pointer()]), symbol)
    builder = llvm.IRBuilder(function.append_basic_block())
    words = function.args[0]
    callee = _declared(context, module, description)
    result_type, problem_type = (place.type.pointee for place in callee.args[:_FIRST])

    def word_at(address: Any, index: int) -> Any:
        return builder.load(builder.gep(address, [_WORD(index)]))

    arguments = [builder.alloca(result_type), builder.alloca(problem_type)]
    for index, type_ in enumerate(description.argtypes):
        value = word_at(words, index + RESULT_WORDS)
        if _is_plain(type_):
            interface = builder.inttoptr(value, _WORD.as_pointer())
            sizes = builder.inttoptr(word_at(interface, SHAPE_WORD), _WORD.as_pointer())
            data = builder.inttoptr(word_at(interface, DATA_WORD), callee.args[len(arguments)].type)
            arguments += [data, *[word_at(sizes, dimension) for dimension in range(type_.ndim)]]
        else:
            number = builder.trunc(value, context.get_value_type(type_))
            arguments += _words_of(context, builder, type_, number)
    state = builder.call(callee, arguments)
    result, value = description.restype, builder.load(arguments[0])
    value = context.get_returned_value(builder, result, value)
    if isinstance(result, types.NoneType):
        kind, value = ResultKind.NONE, _WORD(0)
    elif isinstance(result, types.Boolean):
        kind, value = ResultKind.TRUTH, builder.zext(value, _WORD)
    elif isinstance(result, types.Integer) and result.signed:  # type: ignore[attr-defined]
        kind, value = ResultKind.NUMBER, builder.sext(value, _WORD)
    else:
        raise CompilerError(f"{description.qualname} returns {result}: a kernel returns a number, a truth value or None")
    for index, output in enumerate((_WORD(kind), value)):
        builder.store(output, builder.gep(words, [_WORD(index)]))
    builder.ret(builder.zext(_is_error(builder, state), _STATUS))
    return module


def _is_error(builder: Any, state: Any) -> Any:
    """Return whether a call of a kernel ended with an error."""
    returned, none = (builder.icmp_signed("!=", state, _STATUS(number)) for number in _DONE)
    return builder.and_(returned, none)


class Operations(Lower):  # type: ignore[misc]
    """Numba's generator of code, with own code for elements of arrays, for calls of other kernels and for variables."""

    def init(self) -> None:
        """Begin without code."""
        self._words: dict[str, Sequence[Any]] = {}
        """The words of arguments that are arrays, by the names of their variables."""
        self._members: dict[str, list[Any]] = {}
        """The numbers of tuples, by the names of their variables."""
        self._ranges: dict[str, tuple[Any, Any]] = {}
        """Begin and end of ranges, by the names of their variables."""
        self._loops: dict[str, tuple[Any, Any]] = {}
        """Where the next number of a loop over a range is, and the end, by the names of iterators."""
        self._steps: dict[str, tuple[Any, Any]] = {}
        """A number of a loop and whether the loop has not ended before it, by the names of their pairs."""
        self._places: dict[Any, Any] = {}
        """Where results of calls go, by type."""
        super().init()

    def lower_normal_function(self, description: Any) -> None:
        """Generate the code of the kernel."""
        super().lower_normal_function(description)
        for block in self.function.blocks:
            for instruction in block.instructions:
                if _NO_WRAP in instruction.flags:
                    instruction.flags.remove(_NO_WRAP)
        ends = [block.terminator for block in self.function.blocks]
        states = [end.operands[0] for end in ends if end.opname == "ret"]
        self.library.fails = not all(isinstance(state, llvm.Constant) and state.constant in _DONE for state in states)

    def setup_function(self, description: Any) -> None:
        """Begin the function."""
        self.function = _declared(self.context, self.module, description)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = llvm.IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def extract_function_arguments(self) -> Any:
        """Return the values of the arguments; of arrays that stay in their variables, the words."""
        words = iter(self.function.args[_FIRST:])
        self.fnargs = []
        for name, type_ in zip(self.fndesc.args, self.fndesc.argtypes, strict=True):
            parts = list(islice(words, len(_types_of_words(self.context, type_))))
            if not _is_plain(type_):
                self.fnargs += self.context.get_arg_packer([type_]).from_arguments(self.builder, parts)
            elif name in self._singly_assigned_vars and not self.context.enable_nrt:
                self._words[name] = parts
                self.fnargs.append(None)
            else:
                self.fnargs.append(_array_of(self.context, self.builder, type_, parts))
        return self.fnargs

    def lower_inst(self, inst: Any) -> None:
        """Generate the code of a statement."""
        if not isinstance(inst, ir.Assign) or not self._is_kept(inst.target.name, inst.value):
            super().lower_inst(inst)

    def _is_kept(self, name: str, value: Any) -> bool:
        """Generate the code of a value whose parts are kept apart, if it is one."""
        if self.context.enable_nrt or name not in self._singly_assigned_vars:
            return False
        if isinstance(value, ir.Arg):
            return name in self._words
        type_ = self.typeof(name)
        if isinstance(value, ir.Var) and value.name in self._loops:
            self._loops[name] = self._loops[value.name]
        elif isinstance(value, ir.Expr) and value.op == "build_tuple" and _are_numbers(type_.types):
            pairs = zip(value.items, type_.types, strict=True)
            self._members[name] = [self._cast_var(item, member) for item, member in pairs]
        elif isinstance(value, ir.Expr) and value.op == "call" and _is_range(type_) and len(value.args) < _RANGE_WITH_STEP:
            limits = [self._cast_var(limit, types.int64) for limit in value.args]
            self._ranges[name] = (_WORD(0), *limits) if len(limits) == 1 else tuple(limits)
        elif isinstance(value, ir.Expr) and value.op == "getiter" and value.value.name in self._ranges:
            begin, end = self._ranges[value.value.name]
            with self.builder.goto_entry_block():
                place = self.builder.alloca(_WORD)
            self.builder.store(begin, place)
            self._loops[name] = place, end
        elif isinstance(value, ir.Expr) and value.op == "iternext" and value.value.name in self._loops:
            place, end = self._loops[value.value.name]
            number = self.builder.load(place)
            self.builder.store(self.builder.add(number, _WORD(1)), place)
            self._steps[name] = number, self.builder.icmp_signed("<", number, end)
        else:
            return isinstance(type_, types.Dispatcher)
        return True

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Generate the code of an expression."""
        if expr.op in _PARTS_OF_PAIRS and expr.value.name in self._steps:
            return self._steps[expr.value.name][_PARTS_OF_PAIRS.index(expr.op)]
        return super().lower_expr(resty, expr)

    def loadvar(self, name: str) -> Any:
        """Return the value of a variable."""
        if name in self._members:
            return self.context.make_tuple(self.builder, self.typeof(name), self._members[name])
        if name in self._words and name not in self._blk_local_varmap:
            with self.builder.goto_entry_block():
                self._blk_local_varmap[name] = _array_of(self.context, self.builder, self.typeof(name), self._words[name])
        return super().loadvar(name)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign a value to a variable."""
        if self.context.enable_nrt:
            super().storevar(value, name, argidx)
        elif name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
            if _is_plain(self.typeof(name)):
                self._words[name] = _words_of(self.context, self.builder, self.typeof(name), value)
        else:
            self.builder.store(value, self.getvar(name))

    def emit_environment_object(self) -> None:
        """Do nothing: a kernel needs no objects of Python."""

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Generate the code of an operation with two operands. Neither is a constant of Numba's rewriting passes."""
        return self._operation(resty, expr, op, expr.lhs, expr.rhs, self.fndesc.calltypes[expr])

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Generate the code of an access to an element, or to a part of an array."""
        address = self._element(value, index)
        if address is None:
            return self._operation(resty, expr, getitem, value, index, signature)
        return self.context.cast(self.builder, self.builder.load(address), self.typeof(value.name).dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Generate the code of an assignment to an element."""
        address = self._element(target_var, index_var)
        if address is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self._cast_var(value_var, signature.args[-1])
        value = self.context.cast(self.builder, value, signature.args[-1], self.typeof(target_var.name).dtype)
        return self.builder.store(value, address)

    def create_cfunc_wrapper(self) -> None:
        """Define the symbol of the kernel."""
        self.library.export(self.context, self.fndesc)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Reserve memory for a variable, without the size that only debuggers need."""
        return alloca_once(self.builder, lltype, name=name, zfill=False)

    def _find_singly_assigned_variable(self) -> None:
        """Find the variables that need no memory: they are assigned once, before all their uses."""
        if self.context.enable_nrt:  # references to values end where Numba marks the ends of variables
            super()._find_singly_assigned_variable()
            return
        uses = compute_use_defs(self.blocks)
        assignments: dict[str, list[int]] = {}
        for offset, block in self.blocks.items():
            for assignment in block.find_insts(ir.Assign):
                assignments.setdefault(assignment.target.name, []).append(offset)
        using: dict[str, list[int]] = {}
        for offset, names in uses.usemap.items():
            for name in names:
                using.setdefault(name, []).append(offset)
        before = compute_cfg_from_blocks(self.blocks).dominators()
        self._singly_assigned_vars = {
            name
            for name, offsets in assignments.items()
            if len(offsets) == 1 and all(offsets[0] < offset and offsets[0] in before[offset] for offset in using.get(name, ()))
        }
        self._blk_local_varmap = {}

    def _element(self, array: Any, index: Any) -> Any:
        """Return the address of an element of an array of whole numbers; ``None`` for parts and arrays of another kind."""
        type_, index_type = self.typeof(array.name), self.typeof(index.name)
        index_types = _members_of(index_type)
        if not _is_plain(type_) or len(index_types) != type_.ndim:
            return None
        if not _are_numbers(index_types):
            return None
        builder = self.builder
        numbers = list(self._numbers(index, index_type, index_types))
        words = self._words.get(array.name)
        if words is None:
            words = _words_of(self.context, builder, type_, self.loadvar(array.name))
        data, *shape = words
        position = numbers[0]
        for size, number in zip(shape[1:], numbers[1:], strict=True):
            position = builder.add(builder.mul(position, size), number)
        return builder.gep(data, [position])

    def _numbers(self, index: Any, index_type: Any, types_: Sequence[Any]) -> Iterator[Any]:
        """Yield the numbers of an index."""
        members = self._members.get(index.name)
        if members is None:
            value = self.loadvar(index.name)
            is_tuple = isinstance(index_type, types.BaseTuple)
            members = [self.builder.extract_value(value, i) for i in range(len(types_))] if is_tuple else [value]
        for member, type_ in zip(members, types_, strict=True):
            if isinstance(member, llvm.Constant) and member.constant < 0:
                raise CompilerError(
                    f"an index of the kernel {self.fndesc.qualname} is {member.constant}: count it from the first element"
                )
            yield self.context.cast(self.builder, member, type_, types.intp if type_.signed else types.uintp)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        """Generate the code of a call."""
        if isinstance(fnty, types.Function) and fnty.typing_key in PLAIN_FUNCTIONS:
            value = self._plain_call(fnty.typing_key, expr.args, signature)
            if value is not None:
                return value
        result = fnty.dispatcher.overloads.get(tuple(signature.args)) if isinstance(fnty, types.Dispatcher) else None
        if result is None or not isinstance(result.library, Part) or expr.kws or expr.vararg:
            return super()._lower_call_normal(fnty, expr, signature)
        builder, context = self.builder, self.context
        self.library.add_linking_library(result.library)
        callee = _declared(context, self.module, result.fndesc)
        arguments = [word for pair in zip(expr.args, signature.args, strict=True) for word in self._argument(*pair)]
        place = self._place(callee.args[0].type.pointee)
        state = builder.call(callee, [place, self.function.args[_PROBLEM], *arguments])
        if result.library.fails:
            with builder.if_then(_is_error(builder, state), likely=False):
                builder.ret(state)
        return context.get_returned_value(builder, signature.return_type, builder.load(place))

    def _plain_call(self, function: Any, arguments: Sequence[Any], signature: Any) -> Any:
        """Return the result of a function of Python for whole numbers, or the length of an array; ``None`` for others."""
        if function is len and _is_plain(signature.args[0]):
            return self._argument(arguments[0], signature.args[0])[1]
        if function is len or any(type_ != types.int64 for type_ in signature.args):
            return None
        result, *operands = map(self._cast_var, arguments, signature.args)
        if function is abs:
            operands = [self.builder.neg(result)]
        for operand in operands:
            is_chosen = self.builder.icmp_signed("<" if function is min else ">", result, operand)
            result = self.builder.select(is_chosen, result, operand)
        return result

    def _argument(self, variable: Any, type_: Any) -> Sequence[Any]:
        """Return the words of an argument of another kernel."""
        words = self._words.get(variable.name)
        if words is not None:
            return words
        return _words_of(self.context, self.builder, type_, self._cast_var(variable, type_))

    def _place(self, type_: Any) -> Any:
        """Return where the result of a call goes."""
        if type_ not in self._places:
            with self.builder.goto_entry_block():
                self._places[type_] = self.builder.alloca(type_)
        return self._places[type_]

    def _operation(self, result: Any, expr: Any, op: Any, left: Any, right: Any, signature: Any) -> Any:
        context = self.context
        function = context.typing_context.resolve_value_type(op)
        operands = [
            context.cast(self.builder, self.loadvar(operand.name), self.typeof(operand.name), expected)
            for operand, expected in zip((left, right), signature.args, strict=True)
        ]
        call = context.typing_context.resolve_function_type(function, signature.args, {})
        value = context.get_function(function, call)(self.builder, operands)
        return context.cast(self.builder, value, signature.return_type, result)
