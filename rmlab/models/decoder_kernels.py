"""The decoder's arithmetic in few kernels (Triton): what `rmlab.models.decoder` and `generation` compute in plain torch elsewhere.

A decoding step moves few bytes through many small operations, so its time is the number of kernels. Here a layer has five:

    project    root mean square norm, query/key/value product, head norms (Qwen3), rotary positions; keys and values go into the cache
    attend     flash attention over the cache, each conversation up to its own position and no further
    add        a product that is added to the residual stream (behind attention, and behind the feed-forward part)
    gate       norm, gate and up products, silu(gate) · up

`draw` takes a token of each row of logits and moves the slot on. Sums are in float32; a tile is a multiple of what tensor cores take.
This module imports triton: import it where there is a CUDA device (`rmlab.models.decoder.fusible` says whether it will do).

Tokens stand side by side, each with its slot and its position in that slot's conversation: `position` is -1 where there is none to
read, and nothing is computed for those. Axes: M tokens (of one tile), N columns, H hidden, D head, S cache positions.
"""

# mypy: ignore-errors

import torch
import triton
import triton.language as tl


@triton.jit
def _normed_products(
    hidden, norm, weight, token_M, read_M, one_N, two_N, columns, eps, H: tl.constexpr, BLOCK_H: tl.constexpr
):
    """norm(hidden) times the weight's rows one_N, and times its rows two_N: float32, M × N each."""
    one_MN = tl.zeros((token_M.shape[0], one_N.shape[0]), tl.float32)
    two_MN = tl.zeros((token_M.shape[0], one_N.shape[0]), tl.float32)
    squares_M = tl.zeros((token_M.shape[0],), tl.float32)
    for begin in range(0, H, BLOCK_H):
        h = begin + tl.arange(0, BLOCK_H)
        whole = h < H
        states_MH = tl.load(
            hidden + token_M[:, None] * H + h[None, :], mask=read_M[:, None] & whole[None, :], other=0.0
        ).to(tl.float32)
        squares_M += tl.sum(states_MH * states_MH, 1)
        scaled_MH = states_MH * tl.load(norm + h, mask=whole, other=0.0).to(tl.float32)[None, :]
        scaled_MH = scaled_MH.to(weight.dtype.element_ty)
        one_HN = tl.load(
            weight + one_N[None, :] * H + h[:, None], mask=(one_N < columns)[None, :] & whole[:, None], other=0.0
        )
        two_HN = tl.load(
            weight + two_N[None, :] * H + h[:, None], mask=(two_N < columns)[None, :] & whole[:, None], other=0.0
        )
        one_MN = tl.dot(scaled_MH, one_HN, one_MN, input_precision="ieee")
        two_MN = tl.dot(scaled_MH, two_HN, two_MN, input_precision="ieee")
    scale_M = tl.rsqrt(squares_M / H + eps)
    return one_MN * scale_M[:, None], two_MN * scale_M[:, None]


@triton.jit(do_not_specialize=["tokens"])
def _project(
    hidden, norm, weight, query, keys, values, cosine, sine, query_norm, key_norm, slot, position, tokens, eps,
    H: tl.constexpr, D: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, POSITIONS: tl.constexpr,
    HEAD_NORM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = D // 2
    token_M = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    head = tl.program_id(1)
    position_M = tl.load(position + token_M, mask=token_M < tokens, other=-1)
    read_M = position_M >= 0
    if tl.max(position_M, 0) >= 0:
        d = tl.arange(0, HALF)
        first_N = head * D + d
        one_MD, two_MD = _normed_products(
            hidden, norm, weight, token_M, read_M, first_N, first_N + HALF, (QUERIES + 2 * KEYS) * D, eps, H, BLOCK_H
        )
        if head < QUERIES + KEYS:
            if HEAD_NORM:
                scale_M = tl.rsqrt((tl.sum(one_MD * one_MD, 1) + tl.sum(two_MD * two_MD, 1)) / D + eps)
                of_head = query_norm if head < QUERIES else key_norm
                one_MD = one_MD * scale_M[:, None] * tl.load(of_head + d).to(tl.float32)[None, :]
                two_MD = two_MD * scale_M[:, None] * tl.load(of_head + HALF + d).to(tl.float32)[None, :]
            turn_MD = position_M[:, None] * D + d[None, :]
            cosine_MD = tl.load(cosine + turn_MD, mask=read_M[:, None], other=0.0)
            sine_MD = tl.load(sine + turn_MD + HALF, mask=read_M[:, None], other=0.0)
            turned_MD = one_MD * cosine_MD - two_MD * sine_MD
            two_MD = two_MD * cosine_MD + one_MD * sine_MD
            one_MD = turned_MD
        if head < QUERIES:
            place_MD = query + (token_M[:, None] * QUERIES + head) * D + d[None, :]
        else:
            slot_M = tl.load(slot + token_M, mask=read_M, other=0).to(tl.int64)
            number = (head - QUERIES) % KEYS
            cache = keys if head < QUERIES + KEYS else values
            place_MD = cache + ((slot_M * KEYS + number) * POSITIONS + position_M)[:, None] * D + d[None, :]
        tl.store(place_MD, one_MD.to(query.dtype.element_ty), mask=read_M[:, None])
        tl.store(place_MD + HALF, two_MD.to(query.dtype.element_ty), mask=read_M[:, None])


@triton.jit
def _attend(
    query, keys, values, mixed, slot, position, scaling, D: tl.constexpr, KEYS: tl.constexpr, GROUPS: tl.constexpr,
    PADDED: tl.constexpr, TOGETHER: tl.constexpr, POSITIONS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """A program: the queries M of one key head of TOGETHER tokens of one conversation. PADDED: GROUPS as a power of two."""
    first, head = tl.program_id(0) * TOGETHER, tl.program_id(1)
    m, d = tl.arange(0, BLOCK_M), tl.arange(0, D)
    position_M = tl.load(position + first + m // PADDED, mask=m // PADDED < TOGETHER, other=-1)
    last = tl.max(position_M, 0)
    if last >= 0:
        place_MD = (((first + m // PADDED) * KEYS + head) * GROUPS + m % PADDED)[:, None] * D + d[None, :]
        real_M1 = ((position_M >= 0) & (m % PADDED < GROUPS))[:, None]
        query_MD = tl.load(query + place_MD, mask=real_M1, other=0.0)
        base = (tl.load(slot + first).to(tl.int64) * KEYS + head) * POSITIONS * D
        top_M = tl.full((BLOCK_M,), float("-inf"), tl.float32)
        total_M = tl.zeros((BLOCK_M,), tl.float32)
        mixed_MD = tl.zeros((BLOCK_M, D), tl.float32)
        for begin in range(0, last + 1, BLOCK_S):
            s = begin + tl.arange(0, BLOCK_S)
            place_SD = base + s[:, None] * D + d[None, :]
            key_SD = tl.load(keys + place_SD, mask=(s <= last)[:, None], other=0.0)
            score_MS = tl.dot(query_MD, tl.trans(key_SD), input_precision="ieee") * scaling
            # position 0 is seen by rows that stand for nothing too: no row is without a maximum
            score_MS = tl.where(s[None, :] <= tl.maximum(position_M, 0)[:, None], score_MS, float("-inf"))
            higher_M = tl.maximum(top_M, tl.max(score_MS, 1))
            share_MS = tl.exp(score_MS - higher_M[:, None])
            kept_M = tl.exp(top_M - higher_M)
            total_M = total_M * kept_M + tl.sum(share_MS, 1)
            value_SD = tl.load(values + place_SD, mask=(s <= last)[:, None], other=0.0)
            mixed_MD = tl.dot(share_MS.to(value_SD.dtype), value_SD, mixed_MD * kept_M[:, None], input_precision="ieee")
            top_M = higher_M
        mixed_MD = mixed_MD / total_M[:, None]
        tl.store(mixed + place_MD, mixed_MD.to(mixed.dtype.element_ty), mask=real_M1)


@triton.jit(do_not_specialize=["tokens"])
def _add(
    states, weight, hidden, position, tokens, K: tl.constexpr, N: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    token_M = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    position_M = tl.load(position + token_M, mask=token_M < tokens, other=-1)
    read_M = position_M >= 0
    if tl.max(position_M, 0) >= 0:
        sum_MN = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for begin in range(0, K, BLOCK_K):
            k = begin + tl.arange(0, BLOCK_K)
            states_MK = tl.load(
                states + token_M[:, None] * K + k[None, :], mask=read_M[:, None] & (k < K)[None, :], other=0.0
            )
            weight_KN = tl.load(
                weight + n[None, :] * K + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0.0
            )
            sum_MN = tl.dot(states_MK, weight_KN, sum_MN, input_precision="ieee")
        place_MN = hidden + token_M[:, None] * N + n[None, :]
        written_MN = read_M[:, None] & (n < N)[None, :]
        sum_MN += tl.load(place_MN, mask=written_MN, other=0.0).to(tl.float32)
        tl.store(place_MN, sum_MN.to(hidden.dtype.element_ty), mask=written_MN)


@triton.jit(do_not_specialize=["tokens"])
def _gate(
    hidden, norm, weight, out, position, tokens, eps, H: tl.constexpr, N: tl.constexpr, SECOND: tl.constexpr,
    GATED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """GATED: silu of columns n times columns n + N of the product. Otherwise (the head) all N columns as they are."""
    token_M = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    position_M = tl.load(position + token_M, mask=token_M < tokens, other=-1)
    read_M = position_M >= 0
    if tl.max(position_M, 0) >= 0:
        one_N = tl.program_id(1) * (BLOCK_N if GATED else 2 * BLOCK_N) + tl.arange(0, BLOCK_N)
        two_N = one_N + SECOND
        columns = 2 * N if GATED else N
        one_MN, two_MN = _normed_products(hidden, norm, weight, token_M, read_M, one_N, two_N, columns, eps, H, BLOCK_H)
        place_MN = out + token_M[:, None] * N + one_N[None, :]
        if GATED:
            one_MN = one_MN * tl.sigmoid(one_MN) * two_MN
        else:
            tl.store(place_MN + SECOND, two_MN.to(out.dtype.element_ty), mask=read_M[:, None] & (two_N < N)[None, :])
        tl.store(place_MN, one_MN.to(out.dtype.element_ty), mask=read_M[:, None] & (one_N < N)[None, :])


@triton.jit
def _draw(
    logits, ids, logprob, uniform, position_B, last_B, active_B, temperature_B, stop_id, V: tl.constexpr, S,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """One slot. As `SlotDecoder._draw`: the first token at which the cumulated probability exceeds the position's number."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(active_B + row) != 0:
        position = tl.load(position_B + row) + 1
        temperature = tl.load(temperature_B + row)
        greedy = temperature == 0.0
        temperature = tl.where(greedy, 1.0, temperature)
        top, total, likeliest = float("-inf"), 0.0, 0
        for begin in range(0, V, BLOCK_V):
            v = begin + tl.arange(0, BLOCK_V)
            scaled_V = tl.load(logits + row * V + v, mask=v < V, other=float("-inf")) / temperature
            here = tl.max(scaled_V, 0)
            likeliest = tl.where(here > top, begin + tl.argmax(scaled_V, 0), likeliest)
            higher = tl.maximum(top, here)
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(scaled_V - higher), 0)
            top = higher
        drawn = tl.load(uniform + row * S + position) * total
        before, token = 0.0, V
        for begin in range(0, V, BLOCK_V):
            v = begin + tl.arange(0, BLOCK_V)
            scaled_V = tl.load(logits + row * V + v, mask=v < V, other=float("-inf")) / temperature
            share_V = tl.exp(scaled_V - top)
            reached_V = before + tl.cumsum(share_V, 0)
            token = tl.minimum(token, tl.min(tl.where((reached_V > drawn) & (v < V), v, V), 0))
            before += tl.sum(share_V, 0)
        # both sums are rounded: a number next to 1 may lie beyond the second one
        token = tl.where(greedy | (token == V), likeliest, token)
        said = tl.load(logits + row * V + token) / temperature - top - tl.log(total)
        tl.store(ids + row * S + position, token.to(tl.int64))
        tl.store(logprob + row * S + position, said)
        tl.store(position_B + row, position)
        tl.store(active_B + row, ((token != stop_id) & (position < tl.load(last_B + row))).to(tl.uint8))


UP_TO = (64, 256, 512)
TILES = {
    "project": ((32, 0, 64, 4, 4), (32, 0, 64, 4, 4), (64, 0, 64, 4, 3), (64, 0, 64, 4, 3)),
    "add": ((16, 32, 128, 4, 4), (32, 32, 128, 4, 3), (64, 64, 64, 4, 4), (64, 64, 64, 4, 4)),
    "gate": ((64, 32, 64, 4, 3), (64, 32, 64, 4, 3), (128, 64, 64, 8, 3), (128, 64, 64, 8, 3)),
    "head": ((64, 32, 64, 4, 4), (64, 64, 64, 4, 3), (64, 64, 64, 4, 3), (128, 64, 64, 8, 3)),
    "attend": ((0, 0, 64, 2, 3), (0, 0, 64, 2, 3), (0, 0, 128, 4, 2), (0, 0, 64, 2, 3)),
}
"""Of each kernel for up to so many tokens, and for more: tokens and columns of a tile, what it sums over at once, warps, stages. The
best of three to five that were measured for each on an H200 with SmolLM2's shape; those of the head were not."""


def tile(kernel: str, tokens: int, inner: str) -> dict[str, int]:
    """How a kernel is cut for so many tokens. inner: the name of what it sums over."""
    rows, columns, sums, warps, stages = TILES[kernel][sum(tokens > most for most in UP_TO)]
    sizes = {"BLOCK_M": rows, "BLOCK_N": columns, inner: sums}
    return {name: size for name, size in sizes.items() if size} | {"num_warps": warps, "num_stages": stages}


def project(hidden_MH, layer, query_MQD, keys_BKSD, values_BKSD, rotation, places) -> None:
    """Rotated queries of all tokens into query_MQD, keys and values into the cache. layer: a `DecoderLayer` that is joined."""
    tokens, head_norm = len(hidden_MH), layer.head_norms is not None
    cut = tile("project", tokens, "BLOCK_H")
    query_norm, key_norm = (norm.weight for norm in layer.head_norms or (layer.input_norm, layer.input_norm))
    _project[triton.cdiv(tokens, cut["BLOCK_M"]), layer.query_heads + 2 * layer.key_heads](
        hidden_MH, layer.input_norm.weight, layer.query_key_value, query_MQD, keys_BKSD, values_BKSD, *rotation,
        query_norm, key_norm, places.slot_M, places.position_M, tokens, layer.input_norm.variance_epsilon, H=hidden_MH.shape[1],
        D=layer.head_dim, QUERIES=layer.query_heads, KEYS=layer.key_heads, POSITIONS=keys_BKSD.shape[2],
        HEAD_NORM=head_norm, **cut,
    )  # fmt: skip


def attend(query_MQD, keys_BKSD, values_BKSD, mixed_MQD, scaling, places) -> None:
    """softmax(scaling · query · keys) · values for each query, over the positions of its conversation up to its own."""
    _, key_heads, positions, head_dim = keys_BKSD.shape
    tokens, heads, _ = query_MQD.shape
    together, padded = places.together, triton.next_power_of_2(heads // key_heads)
    _attend[triton.cdiv(tokens, together), key_heads](
        query_MQD, keys_BKSD, values_BKSD, mixed_MQD, places.slot_M, places.position_M, scaling, D=head_dim,
        KEYS=key_heads, GROUPS=heads // key_heads, PADDED=padded, TOGETHER=together, POSITIONS=positions,
        BLOCK_M=max(16, together * padded), **tile("attend", tokens, "BLOCK_S"),
    )  # fmt: skip


def add(states_MK, weight_NK, hidden_MN, places) -> None:
    """hidden_MN += states_MK · weightᵀ, in place."""
    tokens, (columns, inner) = len(hidden_MN), weight_NK.shape
    cut = tile("add", tokens, "BLOCK_K")
    _add[triton.cdiv(tokens, cut["BLOCK_M"]), triton.cdiv(columns, cut["BLOCK_N"])](
        states_MK, weight_NK, hidden_MN, places.position_M, tokens, K=inner, N=columns, **cut
    )


def gate(hidden_MH, norm, weight, out_MN, places, gated: bool = True) -> None:
    """silu(gate) · up of the normed states into out_MN; gated=False: the normed states' product with all rows of the weight."""
    tokens, columns = out_MN.shape
    cut = tile("gate" if gated else "head", tokens, "BLOCK_H")
    second = columns if gated else cut["BLOCK_N"]
    _gate[triton.cdiv(tokens, cut["BLOCK_M"]), triton.cdiv(columns, cut["BLOCK_N"] * (1 if gated else 2))](
        hidden_MH, norm.weight, weight, out_MN, places.position_M, tokens, norm.variance_epsilon,
        H=hidden_MH.shape[1], N=columns, SECOND=second, GATED=gated, **cut,
    )  # fmt: skip


def draw(logits_WV, ids_BS, logprob_BS, uniform_BS, position_B, last_B, active_B, temperature_B, stop_id: int) -> None:
    """One token in each of the first W slots that speak, and the slot moved on by it; others are left as they are."""
    width, vocabulary = logits_WV.shape
    _draw[(width,)](
        logits_WV, ids_BS, logprob_BS, uniform_BS, position_B, last_B, active_B.view(torch.uint8), temperature_B, stop_id,
        V=vocabulary, S=ids_BS.shape[1], BLOCK_V=min(triton.next_power_of_2(vocabulary), 8192), num_warps=8,
    )  # fmt: skip
