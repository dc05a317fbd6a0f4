// The choice between fused and plain kernels of attention; needs no device.
#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include <parallel/ops/cuda/attention/attention_path.hpp>

namespace attention_path_test {

using parallel::accumulate_t;
using parallel::bf16;
using parallel::index;
namespace cuda = parallel::cuda;
namespace ops = parallel::ops;

constexpr cuda::attention_backend h200 = {.library = 91900, .capability = 90};

/// A packed matrix [q | k | v] of an MPT and its gradients and results, which fused kernels
/// support; tests change one property.
template <class T>
struct call {
  explicit call(index batch = 2, index length = 128, index heads = 4, index key_heads = 2,
                index width = 64) {
    index const row = (heads + 2 * key_heads) * width;
    auto const part = [&](std::uintptr_t address, index columns, index count) {
      return ops::heads_view<T>{
          reinterpret_cast<T*>(address) + columns, batch, length, count, width, length * row, row};
    };
    q = part(0x10000, 0, heads);
    k = part(0x10000, heads * width, key_heads);
    v = part(0x10000, (heads + key_heads) * width, key_heads);
    dq = part(0x900000, 0, heads);
    dk = part(0x900000, heads * width, key_heads);
    dv = part(0x900000, (heads + key_heads) * width, key_heads);
    index const dense = heads * width;
    out = {reinterpret_cast<T*>(0x1100000), batch, length, heads, width, length * dense, dense};
    dout = out;
    dout.data = reinterpret_cast<T*>(0x1900000);
  }

  [[nodiscard]] cuda::attention_path forward(cuda::attention_backend backend = h200) const {
    return cuda::attention_forward_path<T>(backend, out, lse, q, k, v, options);
  }
  [[nodiscard]] cuda::attention_path backward(cuda::attention_backend backend = h200) const {
    return cuda::attention_backward_path(backend,
                                         ops::attention_backward_arguments<T>{.dq = dq,
                                                                              .dk = dk,
                                                                              .dv = dv,
                                                                              .dout = dout,
                                                                              .q = q,
                                                                              .k = k,
                                                                              .v = v,
                                                                              .out = out,
                                                                              .lse = statistics(),
                                                                              .options = options});
  }
  /// The reason for the plain kernels in both passes, empty when both are fused.
  [[nodiscard]] std::string reason(cuda::attention_backend backend = h200) const {
    auto const forward_path = forward(backend);
    CHECK(backward(backend).fused == forward_path.fused);
    CHECK(backward(backend).reason == forward_path.reason);
    CHECK(forward_path.fused == forward_path.reason.empty());
    return std::string(forward_path.reason);
  }

  /// The reason for extend_attention and its gradient.
  [[nodiscard]] std::string reason_of_part(bool deterministic = false) const {
    auto const forward = cuda::extend_attention_path<T>(h200, q, k, v, options);
    auto const backward = cuda::extend_attention_backward_path(
        h200, deterministic,
        ops::extend_attention_backward_arguments<T>{.dq = {},
                                                    .dk = {},
                                                    .dv = {},
                                                    .dout = dout,
                                                    .q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .out = out,
                                                    .lse = statistics(),
                                                    .options = options});
    CHECK(forward.fused == forward.reason.empty());
    if (!deterministic) CHECK(backward.reason == forward.reason);
    return std::string(backward.reason);
  }

  [[nodiscard]] parallel::tensor_view<accumulate_t<T> const, 3> statistics() const {
    return {lse, {q.batch, q.heads, q.sequence}};
  }

  ops::heads_view<T> q, k, v, out, dq, dk, dv, dout;
  accumulate_t<T>* lse = reinterpret_cast<accumulate_t<T>*>(std::uintptr_t{0x2100000});
  ops::attention_options options;
};

TEST_CASE("attention_path: the options that MPT trains with go to the fused kernels") {
  std::vector<float> const slopes(4, 0.5F);
  call<bf16> mpt_call;
  mpt_call.options.alibi_slopes = slopes;
  CHECK(mpt_call.reason().empty());
  mpt_call.options.window = 40;
  CHECK(mpt_call.reason().empty());
  mpt_call.options.positions = {.sequence_length = 512, .first_query = 128, .first_key = 128};
  CHECK(mpt_call.reason().empty());
  CHECK(call<bf16>(1, 2, 1, 1, 8).reason().empty());
  CHECK(call<bf16>(1, 100, 8, 1, 256).reason().empty());
  CHECK(call<bf16>().reason({.library = 91600, .capability = 80}).empty());
  mpt_call.lse = nullptr;
  CHECK(mpt_call.forward().fused);
}

TEST_CASE("attention_path: options that the fused kernels do not support go to the plain ones") {
  CHECK(call<bf16>().reason({}) == "no library of fused kernels is linked");
  CHECK(call<bf16>().reason({.library = 91501, .capability = 90}) == "cuDNN is older than 9.16");
  CHECK(call<bf16>().reason({.library = 91900, .capability = 75}) ==
        "the device is older than compute capability 8.0");
  CHECK(call<float>().reason() == "elements are not bf16");
  CHECK(call<bf16>(1, 1).reason() == "there is only one position");
  CHECK(call<bf16>(2, 64, 4, 2, 12).reason() == "head_dim is not a multiple of 8");
  CHECK(call<bf16>(2, 64, 4, 2, 264).reason() == "head_dim is too large");
  CHECK(call<bf16>(2, 64, 4, 2, 136).reason({.library = 91900, .capability = 100}) ==
        "head_dim is too large");

  call<bf16> dropped;
  dropped.options.dropout.probability = 0.1F;
  CHECK(dropped.reason() == "dropout uses other random numbers than cuDNN");
  call<bf16> capped;
  capped.options.softcap = 30.0;
  CHECK(capped.reason() == "scores are capped");
  call<bf16> decoding;
  for (auto* view : {&decoding.q, &decoding.dq, &decoding.out, &decoding.dout})
    *view = view->slice(100, 128);
  CHECK(decoding.reason() == "the numbers of queries and keys differ");
}

TEST_CASE(
    "attention_path: keys before the queries go to the fused kernels only if results are merged") {
  call<bf16> ring;
  std::vector<std::int32_t> const begins(2 * 512, 0);
  for (index const window : {-1, 3})
    for (bool const documents : {false, true}) {
      ring.options.window = window;
      ring.options.document_begins = std::span(begins).first(documents ? begins.size() : 0);
      for (index const first_key : {0, 128}) {
        ring.options.positions = {
            .sequence_length = 512, .first_query = 256, .first_key = first_key};
        CHECK(ring.reason_of_part().empty());
        CHECK(ring.reason() == "queries and keys have different positions");
      }
      ring.options.positions.first_key = 256;
      CHECK(ring.reason_of_part().empty());
      CHECK(ring.reason().empty());
      for (index const first_key : {129, 255, 257, 384}) {
        ring.options.positions.first_key = first_key;
        CHECK(ring.reason_of_part() == "not all keys are before the queries");
      }
    }
  call<bf16> longer(1, 8192, 8, 8);  // 8 x 8192 x 8192 numbers of two bytes are 1 GiB
  CHECK(longer.reason_of_part(true).empty());
  call<bf16> too_long(1, 8192, 9, 9);
  CHECK(too_long.reason_of_part(true) ==
        "a deterministic gradient would take more than 1 GiB of scratch");
  CHECK(too_long.reason_of_part().empty());
}

TEST_CASE("attention_path: packed documents go to the fused kernels, also in parts of sequences") {
  std::vector<std::int32_t> const begins(2 * 512, 0);
  call<bf16> packed;
  packed.options.document_begins = std::span(begins).first(2 * 128);
  CHECK(packed.reason().empty());
  CHECK(packed.reason({.library = 91900, .capability = 100}).empty());
  CHECK(packed.reason({.library = 91900, .capability = 80}) ==
        "the device is too old for documents: below compute capability 9.0");
  packed.options.positions = {.sequence_length = 128};
  CHECK(packed.reason().empty());
  packed.options.positions = {.sequence_length = 512, .first_query = 128, .first_key = 128};
  packed.options.document_begins = begins;
  CHECK(packed.reason().empty());
}

TEST_CASE(
    "attention_path: rows that do not begin at multiples of 16 bytes go to the plain kernels") {
  std::string const reason = "rows do not begin at multiples of 16 bytes";
  for (auto const view : {&call<bf16>::q, &call<bf16>::k, &call<bf16>::v, &call<bf16>::out}) {
    call<bf16> moved;
    (moved.*view).data += 1;
    CHECK(moved.reason() == reason);
    call<bf16> wider;
    (wider.*view).row_stride += 4;
    CHECK(wider.reason() == reason);
    call<bf16> apart;
    (apart.*view).batch_stride += 4;
    CHECK(apart.reason() == reason);
    call<bf16> single(1);
    (single.*view).batch_stride += 4;  // the batch stride of one sequence is irrelevant
    CHECK(single.reason().empty());
  }
  for (auto const view : {&call<bf16>::dq, &call<bf16>::dk, &call<bf16>::dv, &call<bf16>::dout}) {
    call<bf16> moved;
    (moved.*view).data += 1;
    CHECK(moved.forward().fused);
    CHECK(moved.backward().reason == reason);
  }
  call<bf16> sums;
  sums.lse += 1;
  CHECK(sums.reason() == reason);
}

TEST_CASE("attention_path: a result that overlaps the queries goes to the plain kernels") {
  call<bf16> in_place;
  in_place.out = in_place.q;
  CHECK(in_place.forward().reason == "the result overlaps the queries");
  call<bf16> adjacent;  // directly after the packed matrix
  adjacent.out.data = adjacent.q.data + 2 * adjacent.q.batch_stride;
  CHECK(adjacent.forward().fused);
  adjacent.out.data -= 2 * 2 * 64 + 8;  // 16 bytes too early: it overlaps the last value
  CHECK(!adjacent.forward().fused);
}

}  // namespace attention_path_test
