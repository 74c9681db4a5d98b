"""Integers and conditions as parts of a syntax tree, changed and written as Python's own parser builds them."""

import ast


def plus(node: ast.expr, amount: int) -> ast.expr:
    """The expression `node + amount`, folded where it is an integer or already has such a term."""
    value = integer(node)
    if value is not None:
        return number(value + amount)
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Add, ast.Sub))
        and (term := integer(node.right)) is not None
    ):
        total = (term if isinstance(node.op, ast.Add) else -term) + amount
        return (
            node.left
            if total == 0
            else ast.BinOp(node.left, ast.Add() if total > 0 else ast.Sub(), ast.Constant(abs(total)))
        )
    return ast.BinOp(node, ast.Add() if amount > 0 else ast.Sub(), ast.Constant(abs(amount)))


def integer(node: ast.AST | None) -> int | None:
    """The value of an integer literal with or without a minus sign; None for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))) if not isinstance(value, bool):
            return -value
    return None


def number(value: int) -> ast.expr:
    """An integer literal; negative ones as Python's own parser builds them."""
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def negated(test: ast.expr) -> ast.expr:
    """The opposite condition, without a double negation."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)
