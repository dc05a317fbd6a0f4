// matmul_tuning: the fastest algorithm for each product. Needs no CUDA.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/core/hexadecimal.hpp>
#include <parallel/ops/cuda/matmul/matmul_shape.hpp>
#include <parallel/ops/cuda/tuning/tuning_table.hpp>

namespace parallel::cuda {

/// The words of a library's own description of an algorithm, and its rank in the library's list of
/// guesses (0: the first).
struct matmul_algorithm {
  /// Instead of a guess: the epilogue is faster as a separate operation, after the product.
  static constexpr int separate = -1;

  std::array<std::uint64_t, 8> words{};
  int guess = 0;

  friend bool operator==(matmul_algorithm const&, matmul_algorithm const&) = default;
};

namespace detail {

/// The products that can be tuned: the element type of A and B, and that of C.
inline constexpr std::array<std::pair<dtype, dtype>, 3> tuned_types{{
    {dtype::f32, dtype::f32},
    {dtype::bf16, dtype::bf16},
    {dtype::bf16, dtype::f32},
}};

/// An entry is `2304 768 32768 TN+= bf16 f32 16 16 16 3` and the algorithm's words.
struct matmul_tuning_format {
  using key = matmul_shape;
  using choice = matmul_algorithm;
  static constexpr std::string_view name = "matmul_tuning";
  static constexpr int version = 1;
  static constexpr std::string_view task = "product";

  static void write(std::string& out, matmul_shape const& s, matmul_algorithm const& algorithm) {
    out +=
        concat(s.m, " ", s.n, " ", s.k, " ", s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N',
               s.accumulate ? "+=" : "=", epilogues[static_cast<std::size_t>(s.epilogue)], " ",
               to_string(s.input), " ", to_string(s.output), " ", s.alignment_a, " ", s.alignment_b,
               " ", s.alignment_c, " ", algorithm.guess);
    for (auto const word : algorithm.words) out += ' ' + hexadecimal(word);
  }

  [[nodiscard]] static std::pair<matmul_shape, matmul_algorithm> read(tuning_reader& in) {
    constexpr index max_extent = index{1} << 40;
    matmul_shape shape{.m = in.number("m", 1, max_extent),
                       .n = in.number("n", 1, max_extent),
                       .k = in.number("k", 1, max_extent)};
    auto const form = in.word();
    auto const last = form.find('=') + 1;  // 0: there is none
    auto const added = form.substr(0, last).substr(std::min<std::size_t>(last, 2));
    auto const* const epilogue = std::ranges::find(epilogues, form.substr(last));
    in.expect(form.find_first_not_of("NT") == 2 && (added == "=" || added == "+=") &&
                  epilogue != epilogues.end(),
              "'", form,
              "' is not N or T for A, the same for B, = or +=, and b for a bias or g for "
              "its gradient");
    shape.transpose_a = form[0] == 'T';
    shape.transpose_b = form[1] == 'T';
    shape.accumulate = form[2] == '+';
    shape.epilogue = static_cast<matmul_epilogue>(epilogue - epilogues.begin());
    auto const input = in.word();
    auto const output = in.word();
    bool known = false;
    for (auto const& [from, to] : tuned_types)
      if (to_string(from) == input && to_string(to) == output) {
        known = true;
        shape.input = from;
        shape.output = to;
      }
    in.expect(known, "'", input, " ", output, "' are not the element types of a product");
    for (unsigned* const alignment : {&shape.alignment_a, &shape.alignment_b, &shape.alignment_c}) {
      *alignment = static_cast<unsigned>(in.number("an alignment", 1, 16));
      in.expect(std::has_single_bit(*alignment), "an alignment is ", *alignment,
                ", expected a power of two");
    }
    int const min_guess =
        shape.epilogue == matmul_epilogue::bias_gradient ? matmul_algorithm::separate : 0;
    matmul_algorithm algorithm{.guess = static_cast<int>(in.number("the guess", min_guess, 1000))};
    for (auto& word : algorithm.words) word = in.hexadecimal();
    return {shape, algorithm};
  }

 private:
  static constexpr std::array<std::string_view, 3> epilogues = {"", "b", "g"};
};

}  // namespace detail

using matmul_tuning = tuning_table<detail::matmul_tuning_format>;

}  // namespace parallel::cuda
