// fingerprinter: fingerprints of a device's memory.
//
// One is the sum of the memory's 64-bit words modulo 2^64, tensor by tensor: exact, so that it does
// not depend on the order in which a device adds, and an operation that every device has. Any one
// flipped bit changes it; elements of a tensor that only changed places do not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/device/buffer.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/fingerprint.hpp>

namespace parallel::train {

template <class Device>
class fingerprinter {
 public:
  /// For so many tensors between two calls of `take`.
  fingerprinter(Device const& device, std::size_t most)
      : sums_(device.template allocate_shared<std::uint64_t>(most)) {}

  /// Enqueues on `on` the fingerprint of `elements`, which are, or belong to, a subject's memory.
  /// They begin at a multiple of 8 bytes, and what is left to the next one is padding that is zero.
  template <class Stream, class T>
  void add(Stream& on, fingerprint_subject const& of, std::span<T> elements) {
    if (elements.empty()) return;
    auto* const sum = &sums_.span()[subjects_.size()];
    subjects_.push_back(of);
    auto const* const words = reinterpret_cast<std::uint64_t const*>(elements.data());
    std::size_t const count = (elements.size_bytes() + sizeof *words - 1) / sizeof *words;
    ops::sum(on, sum, std::span(words, count));
  }

  /// What was added since the last call, when all of it has run: one for each subject.
  [[nodiscard]] std::vector<fingerprint> take() {
    std::vector<fingerprint> out;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      auto& sum = sums_.span()[i];
      auto const found = std::ranges::find(out, subjects_[i], &fingerprint::of);
      auto& one = found != out.end() ? *found : out.emplace_back(fingerprint{subjects_[i]});
      one.bits = (one.bits ^ std::exchange(sum, 0)) * 0x9e3779b97f4a7c15ULL + 1;
    }
    subjects_.clear();
    return out;
  }

 private:
  buffer<std::uint64_t> sums_;  // zero where none was added
  std::vector<fingerprint_subject> subjects_;
};

}  // namespace parallel::train
