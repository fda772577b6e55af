"""Triton kernels for what a step does many times to few tokens.

Attention: a row has some fifteen visual tokens and some forty words, so that all of what one head does to one row fits
into one program, forward and backward. Residual norm: dropout, sum and LayerNorm in one pass over the tokens. What is
dropped is a hash of a seed and an offset, made again in the backward kernel instead of stored.
"""

import triton
import triton.language as tl

MASKED = tl.constexpr(-1e30)  # a score that nothing real has, without the trouble that infinity makes


@triton.jit
def _keep_mask(seeds, seed_index, offset, threshold):
    """Whether the number at an offset is kept: two rounds of murmur's finaliser, one for each half of the seed."""
    seed = tl.load(seeds + seed_index)
    low = (seed & 0x7FFFFFFF).to(tl.uint32)
    high = (seed >> 31).to(tl.uint32)
    mixed = offset.to(tl.uint32) * 0x9E3779B1 + low
    mixed = (mixed ^ (mixed >> 16)) * 0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35
    mixed = (mixed ^ (mixed >> 16)) + high
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return (mixed >> 1).to(tl.int32) >= threshold


@triton.jit
def _load(
    base, row_stride, token_stride, row, head, count,
    HEAD_DIM: tl.constexpr, TOKENS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """[TOKENS, BLOCK_D] one head's numbers of one row's tokens; zero beyond what is there."""
    token, dim = tl.arange(0, TOKENS), tl.arange(0, BLOCK_D)
    offset = row * row_stride + token[:, None] * token_stride + head * HEAD_DIM + dim[None, :]
    return tl.load(base + offset, mask=(token[:, None] < count) & (dim[None, :] < HEAD_DIM), other=0.0)


@triton.jit
def _store(
    base, block, row_stride, token_stride, row, head, count,
    HEAD_DIM: tl.constexpr, TOKENS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    token, dim = tl.arange(0, TOKENS), tl.arange(0, BLOCK_D)
    offset = row * row_stride + token[:, None] * token_stride + head * HEAD_DIM + dim[None, :]
    tl.store(base + offset, block.to(base.dtype.element_ty), mask=(token[:, None] < count) & (dim[None, :] < HEAD_DIM))


@triton.jit
def _scores(q, key, mask, row, count, scale, TOKENS: tl.constexpr, PRECISION: tl.constexpr):
    """[query, TOKENS] scaled products, lowest where a token is not real."""
    token = tl.arange(0, TOKENS)
    real = tl.load(mask + row * count + token, mask=token < count, other=0) != 0
    return tl.where(real[None, :], tl.dot(q, tl.trans(key), input_precision=PRECISION) * scale, MASKED)


@triton.jit
def _dropout(
    seeds, seed_index, program, first, threshold, keep_scale,
    QUERIES: tl.constexpr, TOKENS: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """[QUERIES, TOKENS] what weights are multiplied by: zero, or the scale that makes up for those."""
    offset = (program * QUERIES + tl.arange(0, QUERIES)[:, None]) * ALL + first + tl.arange(0, TOKENS)[None, :]
    return tl.where(_keep_mask(seeds, seed_index, offset, threshold), keep_scale, 0.0)


@triton.jit(do_not_specialize=["seed_index", "queries", "count1", "count2", "threshold"])
def attention_forward(
    q_ptr, keys1, values1, mask1, keys2, values2, mask2, out, logsumexp, seeds, seed_index,
    queries, count1, count2, scale, threshold, keep_scale,
    q_row, q_token, row1, token1, row2, token2, out_row, out_token,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_T1: tl.constexpr, BLOCK_T2: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One head of one row: softmax of scores over one source or two, times values. BLOCK_T2 is 0 where there is one."""
    program = tl.program_id(0)
    row, head = program // HEADS, program % HEADS
    q = _load(q_ptr, q_row, q_token, row, head, queries, HEAD_DIM, BLOCK_Q, BLOCK_D)
    key1 = _load(keys1, row1, token1, row, head, count1, HEAD_DIM, BLOCK_T1, BLOCK_D)
    score1 = _scores(q, key1, mask1, row, count1, scale, BLOCK_T1, PRECISION)
    highest = tl.max(score1, 1)
    if BLOCK_T2 > 0:
        key2 = _load(keys2, row2, token2, row, head, count2, HEAD_DIM, BLOCK_T2, BLOCK_D)
        score2 = _scores(q, key2, mask2, row, count2, scale, BLOCK_T2, PRECISION)
        highest = tl.maximum(highest, tl.max(score2, 1))
    weight1 = tl.exp(score1 - highest[:, None])
    total = tl.sum(weight1, 1)
    if BLOCK_T2 > 0:
        weight2 = tl.exp(score2 - highest[:, None])
        total += tl.sum(weight2, 1)
    query = tl.arange(0, BLOCK_Q)
    tl.store(logsumexp + program * queries + query, highest + tl.log(total), mask=query < queries)
    if DROPOUT:
        weight1 *= _dropout(
            seeds, seed_index, program, 0, threshold, keep_scale, BLOCK_Q, BLOCK_T1, BLOCK_T1 + BLOCK_T2
        )
        if BLOCK_T2 > 0:
            weight2 *= _dropout(
                seeds, seed_index, program, BLOCK_T1, threshold, keep_scale, BLOCK_Q, BLOCK_T2, BLOCK_T1 + BLOCK_T2
            )
    value1 = _load(values1, row1, token1, row, head, count1, HEAD_DIM, BLOCK_T1, BLOCK_D)
    weighted = tl.dot(weight1.to(value1.dtype), value1, input_precision=PRECISION)
    if BLOCK_T2 > 0:
        value2 = _load(values2, row2, token2, row, head, count2, HEAD_DIM, BLOCK_T2, BLOCK_D)
        weighted += tl.dot(weight2.to(value2.dtype), value2, input_precision=PRECISION)
    _store(out, weighted / total[:, None], out_row, out_token, row, head, queries, HEAD_DIM, BLOCK_Q, BLOCK_D)


@triton.jit
def _source_backward(
    q, grad_out, logsumexp, keys, values, mask, row_stride, token_stride, row, head, count, scale,
    seeds, seed_index, program, first, threshold, keep_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, QUERIES: tl.constexpr, TOKENS: tl.constexpr, ALL: tl.constexpr,
    DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Of one source: its keys, the weights before and after dropout, and the gradient of the weights before it."""
    key = _load(keys, row_stride, token_stride, row, head, count, HEAD_DIM, TOKENS, BLOCK_D)
    value = _load(values, row_stride, token_stride, row, head, count, HEAD_DIM, TOKENS, BLOCK_D)
    weight = tl.exp(_scores(q, key, mask, row, count, scale, TOKENS, PRECISION) - logsumexp[:, None])
    weight_grad = tl.dot(grad_out, tl.trans(value), input_precision=PRECISION)
    dropped = weight
    if DROPOUT:
        factor = _dropout(seeds, seed_index, program, first, threshold, keep_scale, QUERIES, TOKENS, ALL)
        weight_grad *= factor
        dropped = weight * factor
    return key, weight, dropped, weight_grad


@triton.jit
def _store_kv_grads(
    q, grad_out, score_grad, dropped, keys_grad, values_grad, row_stride, token_stride, row, head, count,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, TOKENS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Store the gradients of one source's keys and values."""
    key_grad = tl.dot(tl.trans(score_grad), q, input_precision=PRECISION)
    value_grad = tl.dot(tl.trans(dropped.to(q.dtype)), grad_out, input_precision=PRECISION)
    _store(keys_grad, key_grad, row_stride, token_stride, row, head, count, HEAD_DIM, TOKENS, BLOCK_D)
    _store(values_grad, value_grad, row_stride, token_stride, row, head, count, HEAD_DIM, TOKENS, BLOCK_D)


@triton.jit(do_not_specialize=["seed_index", "queries", "count1", "count2", "threshold"])
def attention_backward(
    q_ptr, keys1, values1, mask1, keys2, values2, mask2, grad_out_ptr, logsumexp_ptr, seeds, seed_index,
    q_grad_ptr, keys1_grad, values1_grad, keys2_grad, values2_grad,
    queries, count1, count2, scale, threshold, keep_scale,
    q_row, q_token, row1, token1, row2, token2, grad_out_row, grad_out_token,
    q_grad_row, q_grad_token, grad_row1, grad_token1, grad_row2, grad_token2,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_T1: tl.constexpr, BLOCK_T2: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of what `attention_forward` was given; it computes the weights again."""
    program = tl.program_id(0)
    row, head = program // HEADS, program % HEADS
    query = tl.arange(0, BLOCK_Q)
    q = _load(q_ptr, q_row, q_token, row, head, queries, HEAD_DIM, BLOCK_Q, BLOCK_D)
    grad_out = _load(grad_out_ptr, grad_out_row, grad_out_token, row, head, queries, HEAD_DIM, BLOCK_Q, BLOCK_D)
    logsumexp = tl.load(logsumexp_ptr + program * queries + query, mask=query < queries, other=1e30)
    key1, weight1, dropped1, weight_grad1 = _source_backward(
        q, grad_out, logsumexp, keys1, values1, mask1, row1, token1, row, head, count1, scale,
        seeds, seed_index, program, 0, threshold, keep_scale,
        HEAD_DIM, BLOCK_D, BLOCK_Q, BLOCK_T1, BLOCK_T1 + BLOCK_T2, DROPOUT, PRECISION,
    )  # fmt: skip
    delta = tl.sum(weight1 * weight_grad1, 1)
    if BLOCK_T2 > 0:
        key2, weight2, dropped2, weight_grad2 = _source_backward(
            q, grad_out, logsumexp, keys2, values2, mask2, row2, token2, row, head, count2, scale,
            seeds, seed_index, program, BLOCK_T1, threshold, keep_scale,
            HEAD_DIM, BLOCK_D, BLOCK_Q, BLOCK_T2, BLOCK_T1 + BLOCK_T2, DROPOUT, PRECISION,
        )  # fmt: skip
        delta += tl.sum(weight2 * weight_grad2, 1)
    score_grad1 = (weight1 * (weight_grad1 - delta[:, None]) * scale).to(q.dtype)
    q_grad = tl.dot(score_grad1, key1, input_precision=PRECISION)
    _store_kv_grads(
        q, grad_out, score_grad1, dropped1, keys1_grad, values1_grad, grad_row1, grad_token1, row, head, count1,
        HEAD_DIM, BLOCK_D, BLOCK_T1, PRECISION,
    )  # fmt: skip
    if BLOCK_T2 > 0:
        score_grad2 = (weight2 * (weight_grad2 - delta[:, None]) * scale).to(q.dtype)
        q_grad += tl.dot(score_grad2, key2, input_precision=PRECISION)
        _store_kv_grads(
            q, grad_out, score_grad2, dropped2, keys2_grad, values2_grad, grad_row2, grad_token2, row, head, count2,
            HEAD_DIM, BLOCK_D, BLOCK_T2, PRECISION,
        )  # fmt: skip
    _store(q_grad_ptr, q_grad, q_grad_row, q_grad_token, row, head, queries, HEAD_DIM, BLOCK_Q, BLOCK_D)


@triton.jit(do_not_specialize=["seed_index", "count", "threshold"])
def residual_norm_forward(
    tokens, branch, weight_ptr, bias_ptr, summed_ptr, out_ptr, mean_ptr, rstd_ptr, seeds, seed_index,
    count, eps, threshold, keep_scale,
    WIDTH: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    RESIDUAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """LayerNorm of tokens, or of their sum with a branch of which some is dropped; the sum is kept for backward."""
    row, column = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS), tl.arange(0, BLOCK_W)
    inside = (row[:, None] < count) & (column[None, :] < WIDTH)
    offset = row[:, None] * WIDTH + column[None, :]
    summed = tl.load(tokens + offset, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        added = tl.load(branch + offset, mask=inside, other=0.0).to(tl.float32)
        if DROPOUT:
            added = tl.where(_keep_mask(seeds, seed_index, offset, threshold), added * keep_scale, 0.0)
        summed += added
        tl.store(summed_ptr + offset, summed.to(summed_ptr.dtype.element_ty), mask=inside)
    mean = tl.sum(summed, 1) / WIDTH
    centred = tl.where(inside, summed - mean[:, None], 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + eps)
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0)
    bias = tl.load(bias_ptr + column, mask=column < WIDTH, other=0.0)
    out = centred * rstd[:, None] * weight[None, :] + bias[None, :]
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + row, mean, mask=row < count)
    tl.store(rstd_ptr + row, rstd, mask=row < count)


@triton.jit(do_not_specialize=["seed_index", "count", "threshold"])
def residual_norm_backward(
    grad_out_ptr, summed_ptr, mean_ptr, rstd_ptr, weight_ptr, tokens_grad, branch_grad, weight_grad_ptr, bias_grad_ptr,
    seeds, seed_index, count, threshold, keep_scale,
    WIDTH: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    TILES: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """The gradients of both inputs, and of weight and bias a sum for each program, over its tiles of rows."""
    column = tl.arange(0, BLOCK_W)
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0)
    weight_grad, bias_grad = tl.zeros([BLOCK_W], tl.float32), tl.zeros([BLOCK_W], tl.float32)
    for tile in range(TILES):
        row = (tl.program_id(0) * TILES + tile) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
        inside = (row[:, None] < count) & (column[None, :] < WIDTH)
        offset = row[:, None] * WIDTH + column[None, :]
        grad_out = tl.load(grad_out_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        summed = tl.load(summed_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < count, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < count, other=0.0)
        normal = tl.where(inside, (summed - mean[:, None]) * rstd[:, None], 0.0)
        weight_grad += tl.sum(grad_out * normal, 0)
        bias_grad += tl.sum(grad_out, 0)
        grad_out *= weight[None, :]
        projection = tl.sum(grad_out * normal, 1) / WIDTH
        grad = (grad_out - tl.sum(grad_out, 1)[:, None] / WIDTH - normal * projection[:, None]) * rstd[:, None]
        tl.store(tokens_grad + offset, grad.to(tokens_grad.dtype.element_ty), mask=inside)
        if DROPOUT:
            grad = tl.where(_keep_mask(seeds, seed_index, offset, threshold), grad * keep_scale, 0.0)
            tl.store(branch_grad + offset, grad.to(branch_grad.dtype.element_ty), mask=inside)
    tl.store(weight_grad_ptr + tl.program_id(0) * WIDTH + column, weight_grad, mask=column < WIDTH)
    tl.store(bias_grad_ptr + tl.program_id(0) * WIDTH + column, bias_grad, mask=column < WIDTH)
