// fingerprinter: fingerprints of a device's memory.
//
// A fingerprint is the sum of the memory's 64-bit words modulo 2^64, tensor by tensor: the sum is
// exact, so it does not depend on the order in which a device adds, and every device has the
// operation. Any single flipped bit changes it; elements that only swap positions in a tensor do
// not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/device/buffer.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/train/checks/fingerprint.hpp>

namespace parallel::train {

template <class Device>
class fingerprinter {
 public:
  /// Has room for `capacity` tensors between two calls of `take`.
  fingerprinter(Device const& device, std::size_t capacity)
      : sums_(device.template allocate_shared<std::uint64_t>(capacity)) {}

  /// Enqueues on `stream` the fingerprint of `elements`, which are, or belong to, a subject's
  /// memory. They begin at a multiple of 8 bytes, and the padding up to the next such multiple is
  /// zero.
  template <class Stream, class T>
  void add(Stream& stream, fingerprint_subject const& subject, std::span<T> elements) {
    if (elements.empty()) return;
    auto* const sum = &sums_.span()[subjects_.size()];
    subjects_.push_back(subject);
    auto const* const words = reinterpret_cast<std::uint64_t const*>(elements.data());
    std::size_t const count = (elements.size_bytes() + sizeof *words - 1) / sizeof *words;
    ops::sum(stream, sum, std::span(words, count));
  }

  /// The fingerprints that were added since the last call, one for each subject. All of them must
  /// have run.
  [[nodiscard]] std::vector<fingerprint> take() {
    std::vector<fingerprint> out;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      auto& sum = sums_.span()[i];
      auto const found = std::ranges::find(out, subjects_[i], &fingerprint::subject);
      auto& print = found != out.end() ? *found : out.emplace_back(fingerprint{subjects_[i]});
      print.bits = (print.bits ^ std::exchange(sum, 0)) * 0x9e3779b97f4a7c15ULL + 1;
    }
    subjects_.clear();
    return out;
  }

 private:
  buffer<std::uint64_t> sums_;  // zero where nothing was added
  std::vector<fingerprint_subject> subjects_;
};

}  // namespace parallel::train
