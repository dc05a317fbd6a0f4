// for_each_element: out[i] = f(in0[i], in1[i], ...) by all threads of a grid, 16 bytes at a time.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/block.hpp>

namespace parallel::cuda {

/// f takes and returns accumulate_t<T> (or what its parameters say); the result is rounded once.
/// out may be one of the inputs. Where a pointer is not aligned to 16 bytes, elements go one by
/// one.
template <class Block, class F, class T, class... In>
PARALLELLM_DEVICE void for_each_element(Block const& b, std::size_t count, F const& f, T* out,
                                        In const*... in) {
  using wide = accumulate_t<T>;
  std::size_t whole = 0;
  if (packable(out, in...)) {
    constexpr unsigned each = pack_size<T>;
    static_assert(((sizeof(In) == sizeof(T)) && ...));
    for_each_of_grid(b, count / each, [&](std::size_t p) {
      std::size_t const first = p * each;
      auto const compute = [&](auto const&... packs) {
        pack<T> y;
        for (unsigned i = 0; i < each; ++i)
          y.value[i] = static_cast<T>(f(static_cast<wide>(packs.value[i])...));
        return y;
      };
      store_pack(out + first, compute(load_pack(in + first)...));
    });
    whole = count / each * each;
  }
  for_each_of_grid(b, count - whole, [&](std::size_t i) {
    out[whole + i] = static_cast<T>(f(static_cast<wide>(in[whole + i])...));
  });
}

}  // namespace parallel::cuda
