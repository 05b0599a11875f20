"""Small changes to a source file, each of which a test should notice.

A mutant replaces one stretch of the text. Annotations, docstrings, texts and calls of the log are left alone, and
so are the bodies of classes and default arguments.
"""

import ast
from pathlib import Path
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}
_OPPOSITE_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGGER = "log"
_INNER = (ast.match_case, ast.ExceptHandler, ast.comprehension, ast.keyword, ast.withitem, ast.arguments)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    """The bytes `begin` to `end` of `file`, in `function` (empty: the module), are `was` and become `now`."""

    file: str
    function: str
    line: int
    begin: int
    end: int
    was: str
    now: str

    def source(self, text: bytes) -> bytes:
        """The file with this change."""
        return text[: self.begin] + self.now.encode() + text[self.end :]

    def __str__(self) -> str:
        was, now = (" ".join(part.split()) for part in (self.was, self.now))
        return f"{self.file}:{self.line} in {self.function or 'the module'}\n    - {was}\n    + {now}"


def mutants_of(file: Path, name: str) -> list[Mutant]:
    """All mutants of a source file, in order; `name` is how they call it."""
    text = file.read_bytes()
    finder = _Finder(name, text)
    finder.module(ast.parse(text))
    return sorted(set(finder.found), key=lambda one: (one.begin, one.end, one.now))


class _Finder:
    def __init__(self, name: str, text: bytes) -> None:
        self.found: list[Mutant] = []
        self._name = name
        self._text = text
        self._function = ""
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def module(self, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                self._constants(node.value)
        self._functions(tree, "")

    def _functions(self, node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                self._functions(child, f"{outer}{child.name}.")
            elif isinstance(child, _Function):
                self._function = outer + child.name
                self._block(child.body)

    def _constants(self, value: ast.expr) -> None:
        if isinstance(value, ast.BinOp) and not isinstance(value.op, ast.BitOr):
            self._between(value.left, value.right, _OPERATORS[type(value.op)])
        elif isinstance(value, ast.Constant | ast.UnaryOp):
            self._expression(value)
        elif isinstance(value, ast.Tuple | ast.List | ast.Set):
            for one in value.elts:
                self._constants(one)

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not _is_text(statement):
                self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Call() as call) if _is_log(call):
                return
            case ast.Assert() | ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
                # They narrow types.
                return
            case ast.Expr(value=ast.Call()) | ast.Delete() | ast.AugAssign() | ast.Raise():
                self._add(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                self._add(node, "pass")
            case ast.Continue():
                self._add(node, "break")
            case ast.Break():
                self._add(node, "continue")
            case ast.Return(value=ast.expr() as value):
                if not (isinstance(value, ast.Constant) and value.value in {None, True, False}):
                    self._add(value, "None")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._block(node.body)
                return
        self._inside(node)

    def _inside(self, node: ast.AST) -> None:
        """What stands in a statement or an expression."""
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "type_params", "targets", "target", "pattern"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    self._block([child])
                elif isinstance(child, ast.expr):
                    if field in {"test", "ifs", "guard"}:
                        self._negate(child)
                    self._expression(child)
                elif isinstance(child, _INNER):
                    self._inside(child)

    def _expression(self, node: ast.expr) -> None:
        match node:
            case ast.JoinedStr():
                return
            case ast.Constant(value=bool() as value):
                self._add(node, str(not value))
            case ast.Constant(value=int() | float() as number):
                for other in {0: [1], 1: [2]}.get(number, [number * 2, number / 2]):
                    self._add(node, repr(int(other) if isinstance(number, int) else other))
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _COMPARISONS:
                self._between(left, right, _COMPARISONS[type(op)])
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
                self._between(left, right, _OPERATORS[type(op)])
            case ast.BoolOp(values=values):
                for dropped in values:
                    neutral = isinstance(node.op, ast.And)
                    self._add(dropped, str(neutral))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._add(node, f"({self._written(operand)})")
            case ast.Call(func=ast.Name(id=name) as called) if name in _OPPOSITE_CALLS:
                self._add(called, _OPPOSITE_CALLS[name])
            case ast.Lambda(body=body):
                self._expression(body)
                return
        self._inside(node)

    def _negate(self, test: ast.expr) -> None:
        # A comparison and `not` are turned round by themselves.
        if not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
            self._add(test, f"(not ({self._written(test)}))")

    def _between(self, left: ast.expr, right: ast.expr, operator: str) -> None:
        """Another operator; brackets that stand around its sides stay."""
        begin, end = self._at(left)[1], self._at(right)[0]
        between = self._text[begin:end].decode()
        symbol = between.strip(" ()\n\\")
        if symbol and between.count(symbol) == 1:
            self._append(begin, end, between, between.replace(symbol, operator))

    def _add(self, node: ast.AST, now: str) -> None:
        begin, end = self._at(node)
        self._append(begin, end, self._text[begin:end].decode(), now)

    def _append(self, begin: int, end: int, was: str, now: str) -> None:
        line = self._text.count(b"\n", 0, begin) + 1
        self.found.append(Mutant(self._name, self._function, line, begin, end, was, now))

    def _at(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _written(self, node: ast.expr) -> str:
        begin, end = self._at(node)
        return self._text[begin:end].decode()


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_log(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == _LOGGER
    )
