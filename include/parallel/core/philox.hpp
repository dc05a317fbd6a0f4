// Philox4x32-10: counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11, table 2).
//
// A number is a pure function of (key, counter): there is no state to save, and it does not depend
// on layout, microbatch or recomputation. The library's key is (seed, stream), where the stream is
// a hash of the name of a tensor or operation; its counter is (global element index, step).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel {

/// N 32-bit words. It replaces std::array, whose operator[] cannot be called in device code.
template <int N>
struct random_words {
  std::uint32_t word[N];
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr std::uint32_t& operator[](std::size_t i) {
    return word[i];
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr std::uint32_t operator[](std::size_t i) const {
    return word[i];
  }
};

/// The block of four 32-bit words for a 128-bit counter and a 64-bit key.
[[nodiscard]] PARALLELLM_HOST_DEVICE constexpr random_words<4> philox4x32(random_words<4> counter,
                                                                          random_words<2> key) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53U;
  constexpr std::uint64_t multiplier1 = 0xCD9E8D57U;
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const product0 = multiplier0 * counter[0];
    std::uint64_t const product1 = multiplier1 * counter[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                static_cast<std::uint32_t>(product0)}};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// FNV-1a: the stable 32-bit number of the random stream of this name ("transformer.wte.weight",
/// "resid_dropout/3").
[[nodiscard]] constexpr std::uint32_t stream_id(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (char const character : name)
    hash = (hash ^ static_cast<std::uint8_t>(character)) * 16777619U;
  return hash;
}

/// Random numbers of one (seed, stream, step), addressed by global element index.
class philox {
 public:
  PARALLELLM_HOST_DEVICE constexpr philox(std::uint64_t seed, std::uint32_t stream,
                                          std::uint32_t step = 0)
      : key_{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}},
        stream_(stream),
        step_(step) {}

  /// 32 random bits for `element`. Four consecutive elements share one Philox block.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr std::uint32_t bits(std::uint64_t element) const {
    return block(element >> 2)[element & 3U];
  }

  /// Uniform in (0, 1): never 0 and never 1.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr float uniform(std::uint64_t element) const {
    return to_uniform(bits(element));
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE static constexpr float to_uniform(std::uint32_t bits) {
    return (static_cast<float>(bits >> 9) + 0.5F) * (1.0F / 8388608.0F);
  }

  /// Standard normal by Box and Muller; elements 2i and 2i+1 share one pair.
  [[nodiscard]] float normal(std::uint64_t element) const {
    auto const words = block(element >> 1);
    double const radius_uniform = (static_cast<double>(words[0]) + 0.5) / 4294967296.0;
    double const angle = 2.0 * std::numbers::pi * (static_cast<double>(words[1]) / 4294967296.0);
    double const radius = std::sqrt(-2.0 * std::log(radius_uniform));
    return static_cast<float>(radius * ((element & 1U) == 0 ? std::cos(angle) : std::sin(angle)));
  }

  /// The four words of elements 4 counter, ... 4 counter + 3.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr random_words<4> block(
      std::uint64_t counter) const {
    return philox4x32({{static_cast<std::uint32_t>(counter),
                        static_cast<std::uint32_t>(counter >> 32), stream_, step_}},
                      key_);
  }

  /// The other inputs of a block besides its counter, for kernels that compute many blocks at once.
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr random_words<2> key() const { return key_; }
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr std::uint32_t stream() const { return stream_; }
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr std::uint32_t step() const { return step_; }

 private:
  random_words<2> key_;
  std::uint32_t stream_;
  std::uint32_t step_;
};

}  // namespace parallel
