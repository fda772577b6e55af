"""Kernels in Triton for what a step does many times to few tokens.

Attention: a row has some fifteen sights and some forty words, so that all of what one head does to one row fits into
one program, forwards and backwards. Residual: dropout, sum and LayerNorm in one pass over the tokens. What is dropped
is a hash of a seed and a place, made again on the way back instead of remembered.
"""

import triton
import triton.language as tl

LOWEST = tl.constexpr(-1e30)  # a score that nothing real has, without the trouble that infinity makes


@triton.jit
def _keeps(seeds, site, place, threshold):
    """Whether the number at a place is kept: two rounds of murmur's finaliser, one for each half of the seed."""
    seed = tl.load(seeds + site)
    low = (seed & 0x7FFFFFFF).to(tl.uint32)
    high = (seed >> 31).to(tl.uint32)
    mixed = place.to(tl.uint32) * 0x9E3779B1 + low
    mixed = (mixed ^ (mixed >> 16)) * 0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35
    mixed = (mixed ^ (mixed >> 16)) + high
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return (mixed >> 1).to(tl.int32) >= threshold


@triton.jit
def _load(
    start, row_stride, token_stride, row, head, count, DEPTH: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr
):
    """[TOKENS, D] one head's numbers of one row's tokens; zero beyond what is there."""
    token, depth = tl.arange(0, TOKENS), tl.arange(0, D)
    place = row * row_stride + token[:, None] * token_stride + head * DEPTH + depth[None, :]
    return tl.load(start + place, mask=(token[:, None] < count) & (depth[None, :] < DEPTH), other=0.0)


@triton.jit
def _store(
    start, block, row_stride, token_stride, row, head, count, DEPTH: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr
):
    token, depth = tl.arange(0, TOKENS), tl.arange(0, D)
    place = row * row_stride + token[:, None] * token_stride + head * DEPTH + depth[None, :]
    tl.store(start + place, block.to(start.dtype.element_ty), mask=(token[:, None] < count) & (depth[None, :] < DEPTH))


@triton.jit
def _scores(asked, keys, mask, row, count, scale, TOKENS: tl.constexpr, PRECISION: tl.constexpr):
    """[query, TOKENS] scaled products, lowest where a token is not real."""
    token = tl.arange(0, TOKENS)
    real = tl.load(mask + row * count + token, mask=token < count, other=0) != 0
    return tl.where(real[None, :], tl.dot(asked, tl.trans(keys), input_precision=PRECISION) * scale, LOWEST)


@triton.jit
def _dropped(
    seeds, site, program, first, threshold, rise, QUERIES: tl.constexpr, TOKENS: tl.constexpr, ALL: tl.constexpr
):
    """[QUERIES, TOKENS] what weights are multiplied by: zero, or as much as makes up for those."""
    place = (program * QUERIES + tl.arange(0, QUERIES)[:, None]) * ALL + first + tl.arange(0, TOKENS)[None, :]
    return tl.where(_keeps(seeds, site, place, threshold), rise, 0.0)


@triton.jit(do_not_specialize=["site", "queries", "count1", "count2", "threshold"])
def attend_forward(
    asked, keys1, values1, mask1, keys2, values2, mask2, found, spread, seeds, site,
    queries, count1, count2, scale, threshold, rise,
    asked_row, asked_token, row1, token1, row2, token2, found_row, found_token,
    HEADS: tl.constexpr, DEPTH: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr,
    DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One head of one row: softmax of scores over one source or two, times values. T2 is 0 where there is one."""
    program = tl.program_id(0)
    row, head = program // HEADS, program % HEADS
    ask = _load(asked, asked_row, asked_token, row, head, queries, DEPTH, Q, D)
    key1 = _load(keys1, row1, token1, row, head, count1, DEPTH, T1, D)
    score1 = _scores(ask, key1, mask1, row, count1, scale, T1, PRECISION)
    top = tl.max(score1, 1)
    if T2 > 0:
        key2 = _load(keys2, row2, token2, row, head, count2, DEPTH, T2, D)
        score2 = _scores(ask, key2, mask2, row, count2, scale, T2, PRECISION)
        top = tl.maximum(top, tl.max(score2, 1))
    weight1 = tl.exp(score1 - top[:, None])
    total = tl.sum(weight1, 1)
    if T2 > 0:
        weight2 = tl.exp(score2 - top[:, None])
        total += tl.sum(weight2, 1)
    query = tl.arange(0, Q)
    tl.store(spread + program * queries + query, top + tl.log(total), mask=query < queries)
    if DROPS:
        weight1 *= _dropped(seeds, site, program, 0, threshold, rise, Q, T1, T1 + T2)
        if T2 > 0:
            weight2 *= _dropped(seeds, site, program, T1, threshold, rise, Q, T2, T1 + T2)
    value1 = _load(values1, row1, token1, row, head, count1, DEPTH, T1, D)
    sum_ = tl.dot(weight1.to(value1.dtype), value1, input_precision=PRECISION)
    if T2 > 0:
        value2 = _load(values2, row2, token2, row, head, count2, DEPTH, T2, D)
        sum_ += tl.dot(weight2.to(value2.dtype), value2, input_precision=PRECISION)
    _store(found, sum_ / total[:, None], found_row, found_token, row, head, queries, DEPTH, Q, D)


@triton.jit(do_not_specialize=["site", "queries", "count1", "count2", "threshold"])
def attend_backward(
    asked, keys1, values1, mask1, keys2, values2, mask2, wanted, spread, seeds, site,
    asked_grad, keys1_grad, values1_grad, keys2_grad, values2_grad,
    queries, count1, count2, scale, threshold, rise,
    asked_row, asked_token, row1, token1, row2, token2, wanted_row, wanted_token,
    asked_grad_row, asked_grad_token, grad_row1, grad_token1, grad_row2, grad_token2,
    HEADS: tl.constexpr, DEPTH: tl.constexpr, D: tl.constexpr, Q: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr,
    DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of what `attend_forward` was given, which makes its weights again."""
    program = tl.program_id(0)
    row, head = program // HEADS, program % HEADS
    query = tl.arange(0, Q)
    ask = _load(asked, asked_row, asked_token, row, head, queries, DEPTH, Q, D)
    want = _load(wanted, wanted_row, wanted_token, row, head, queries, DEPTH, Q, D)
    norm = tl.load(spread + program * queries + query, mask=query < queries, other=1e30)
    key1 = _load(keys1, row1, token1, row, head, count1, DEPTH, T1, D)
    value1 = _load(values1, row1, token1, row, head, count1, DEPTH, T1, D)
    weight1 = tl.exp(_scores(ask, key1, mask1, row, count1, scale, T1, PRECISION) - norm[:, None])
    change1 = tl.dot(want, tl.trans(value1), input_precision=PRECISION)
    used1 = weight1
    if DROPS:
        drop1 = _dropped(seeds, site, program, 0, threshold, rise, Q, T1, T1 + T2)
        change1 *= drop1
        used1 = weight1 * drop1
    mean = tl.sum(weight1 * change1, 1)
    if T2 > 0:
        key2 = _load(keys2, row2, token2, row, head, count2, DEPTH, T2, D)
        value2 = _load(values2, row2, token2, row, head, count2, DEPTH, T2, D)
        weight2 = tl.exp(_scores(ask, key2, mask2, row, count2, scale, T2, PRECISION) - norm[:, None])
        change2 = tl.dot(want, tl.trans(value2), input_precision=PRECISION)
        used2 = weight2
        if DROPS:
            drop2 = _dropped(seeds, site, program, T1, threshold, rise, Q, T2, T1 + T2)
            change2 *= drop2
            used2 = weight2 * drop2
        mean += tl.sum(weight2 * change2, 1)
    kind = ask.dtype
    score1 = (weight1 * (change1 - mean[:, None]) * scale).to(kind)
    ask_grad = tl.dot(score1, key1, input_precision=PRECISION)
    key1_grad = tl.dot(tl.trans(score1), ask, input_precision=PRECISION)
    value1_grad = tl.dot(tl.trans(used1.to(kind)), want, input_precision=PRECISION)
    _store(keys1_grad, key1_grad, grad_row1, grad_token1, row, head, count1, DEPTH, T1, D)
    _store(values1_grad, value1_grad, grad_row1, grad_token1, row, head, count1, DEPTH, T1, D)
    if T2 > 0:
        score2 = (weight2 * (change2 - mean[:, None]) * scale).to(kind)
        ask_grad += tl.dot(score2, key2, input_precision=PRECISION)
        key2_grad = tl.dot(tl.trans(score2), ask, input_precision=PRECISION)
        value2_grad = tl.dot(tl.trans(used2.to(kind)), want, input_precision=PRECISION)
        _store(keys2_grad, key2_grad, grad_row2, grad_token2, row, head, count2, DEPTH, T2, D)
        _store(values2_grad, value2_grad, grad_row2, grad_token2, row, head, count2, DEPTH, T2, D)
    _store(asked_grad, ask_grad, asked_grad_row, asked_grad_token, row, head, queries, DEPTH, Q, D)


@triton.jit(do_not_specialize=["site", "count", "threshold"])
def residual_forward(
    tokens, change, scale, shift, summed, made, mean, rise_of, seeds, site, count, eps, threshold, rise,
    WIDTH: tl.constexpr, W: tl.constexpr, ROWS: tl.constexpr, ALONE: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """LayerNorm of tokens, or of their sum with a change of which some is dropped; the sum is kept for the way back."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, W)
    inside = (row[:, None] < count) & (column[None, :] < WIDTH)
    place = row[:, None] * WIDTH + column[None, :]
    whole = tl.load(tokens + place, mask=inside, other=0.0).to(tl.float32)
    if not ALONE:
        more = tl.load(change + place, mask=inside, other=0.0).to(tl.float32)
        if DROPS:
            more = tl.where(_keeps(seeds, site, place, threshold), more * rise, 0.0)
        whole += more
        tl.store(summed + place, whole.to(summed.dtype.element_ty), mask=inside)
    centre = tl.sum(whole, 1) / WIDTH
    aside = tl.where(inside, whole - centre[:, None], 0.0)
    steep = 1 / tl.sqrt(tl.sum(aside * aside, 1) / WIDTH + eps)
    gain = tl.load(scale + column, mask=column < WIDTH, other=0.0)
    base = tl.load(shift + column, mask=column < WIDTH, other=0.0)
    out = aside * steep[:, None] * gain[None, :] + base[None, :]
    tl.store(made + place, out.to(made.dtype.element_ty), mask=inside)
    tl.store(mean + row, centre, mask=row < count)
    tl.store(rise_of + row, steep, mask=row < count)


@triton.jit(do_not_specialize=["site", "count", "threshold"])
def residual_backward(
    wanted, summed, mean, rise_of, scale, tokens_grad, change_grad, scale_grad, shift_grad, seeds, site,
    count, threshold, rise,
    WIDTH: tl.constexpr, W: tl.constexpr, ROWS: tl.constexpr, TILES: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """The gradients of both inputs, and of scale and shift a sum for each program, over its tiles of rows."""
    column = tl.arange(0, W)
    gain = tl.load(scale + column, mask=column < WIDTH, other=0.0)
    gains, shifts = tl.zeros([W], tl.float32), tl.zeros([W], tl.float32)
    for tile in range(TILES):
        row = (tl.program_id(0) * TILES + tile) * ROWS + tl.arange(0, ROWS)
        inside = (row[:, None] < count) & (column[None, :] < WIDTH)
        place = row[:, None] * WIDTH + column[None, :]
        want = tl.load(wanted + place, mask=inside, other=0.0).to(tl.float32)
        whole = tl.load(summed + place, mask=inside, other=0.0).to(tl.float32)
        centre = tl.load(mean + row, mask=row < count, other=0.0)
        steep = tl.load(rise_of + row, mask=row < count, other=0.0)
        normal = tl.where(inside, (whole - centre[:, None]) * steep[:, None], 0.0)
        gains += tl.sum(want * normal, 0)
        shifts += tl.sum(want, 0)
        want *= gain[None, :]
        along = tl.sum(want * normal, 1) / WIDTH
        grad = (want - tl.sum(want, 1)[:, None] / WIDTH - normal * along[:, None]) * steep[:, None]
        tl.store(tokens_grad + place, grad.to(tokens_grad.dtype.element_ty), mask=inside)
        if DROPS:
            grad = tl.where(_keeps(seeds, site, place, threshold), grad * rise, 0.0)
            tl.store(change_grad + place, grad.to(change_grad.dtype.element_ty), mask=inside)
    tl.store(scale_grad + tl.program_id(0) * WIDTH + column, gains, mask=column < WIDTH)
    tl.store(shift_grad + tl.program_id(0) * WIDTH + column, shifts, mask=column < WIDTH)
