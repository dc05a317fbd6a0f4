// fingerprint: compares memory that must have the same bits on several ranks, and finds the ranks
// that differ.
//
// Nothing here depends on a device or a communicator: all ranks have the same statements and reach
// the same verdict.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/ops/reduce.hpp>

namespace parallel::train {

/// The data of which fingerprints are computed.
enum class fingerprint_kind : std::int32_t {
  gradient,  // of one microbatch, before any reduction
  values,    // of parameters, as layers read them
  states     // master weights and optimizer states
};

/// The data that a fingerprint is computed from. Fingerprints of equal subjects must be equal.
struct fingerprint_subject {
  fingerprint_kind kind = fingerprint_kind::gradient;
  std::int32_t unit = 0;     ///< number of the unit among all of the model's
  std::int32_t piece = 0;    ///< of a gradient: the part that made it; else the segment
  std::int32_t owner = 0;    ///< of a gradient: the data rank of its microbatch; else the shard
  std::int32_t tensor = 0;   ///< the slice along the tensor axis
  std::int32_t context = 0;  ///< of a gradient: the rank along the context axis

  friend auto operator<=>(fingerprint_subject const&, fingerprint_subject const&) = default;
};

struct fingerprint {
  fingerprint_subject subject;
  std::uint64_t bits = 0;
};

/// A fingerprint that rank `rank` has taken. A rank may take several of one subject in turn.
struct fingerprint_statement {
  fingerprint print;
  int rank = 0;
};

/// The ranks whose bits of a subject differ from those of the others.
struct fingerprint_fault {
  fingerprint_subject subject;
  std::vector<int> ranks = {};  ///< ascending
  bool persistent = true;       ///< false: each of them has also had the right bits
  bool certain = true;          ///< false: it is unknown which of them are wrong
};

namespace detail {

/// Judges the statements about one subject, which differ.
[[nodiscard]] inline std::vector<fingerprint_fault> judge_subject(
    std::span<fingerprint_statement const> statements) {
  struct opinion {
    std::uint64_t bits;
    std::vector<int> ranks = {};  // different ones
    std::size_t times = 0;
    [[nodiscard]] auto weight() const { return std::pair(ranks.size(), times); }
  };
  std::vector<opinion> opinions;
  std::vector<int> everybody;
  auto const add_once = [](std::vector<int>& ranks, int rank) {
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (auto const& statement : statements) {
    auto found = std::ranges::find(opinions, statement.print.bits, &opinion::bits);
    if (found == opinions.end()) found = opinions.insert(found, opinion{statement.print.bits});
    add_once(found->ranks, statement.rank);
    add_once(everybody, statement.rank);
    ++found->times;
  }
  std::ranges::sort(everybody);
  std::ranges::stable_sort(opinions, std::greater{}, &opinion::weight);
  auto const& subject = statements.front().print.subject;
  if (opinions[0].weight() == opinions[1].weight()) return {{subject, everybody, true, false}};
  fingerprint_fault recovered{subject, {}, false}, persistent{subject};
  for (int const rank : everybody) {
    bool const was_right = std::ranges::find(opinions[0].ranks, rank) != opinions[0].ranks.end();
    bool const was_wrong = std::ranges::any_of(statements, [&](auto const& statement) {
      return statement.rank == rank && statement.print.bits != opinions[0].bits;
    });
    if (was_wrong) (was_right ? recovered : persistent).ranks.push_back(rank);
  }
  std::vector<fingerprint_fault> faults;
  for (auto* const fault : {&recovered, &persistent})
    if (!fault->ranks.empty()) faults.push_back(std::move(*fault));
  return faults;
}

}  // namespace detail

/// The faults by subject; empty: all statements about the same subject agree. The bits that most
/// ranks have stated are right; among those with as many ranks, the bits that were stated most
/// often. Cost: sorts the statements.
template <class = void>
[[nodiscard]] std::vector<fingerprint_fault> judge(std::vector<fingerprint_statement> statements) {
  std::ranges::stable_sort(statements, {},
                           [](auto const& statement) { return statement.print.subject; });
  std::vector<fingerprint_fault> out;
  for (auto begin = statements.begin(); begin != statements.end();) {
    auto const end = std::find_if(begin, statements.end(), [&](auto const& statement) {
      return statement.print.subject != begin->print.subject;
    });
    if (std::any_of(begin, end, [&](auto const& statement) {
          return statement.print.bits != begin->print.bits;
        }))
      for (auto& fault : detail::judge_subject({begin, end})) out.push_back(std::move(fault));
    begin = end;
  }
  return out;
}

/// Fingerprints of a device's memory.
///
/// A fingerprint is the sum of the memory's 64-bit words modulo 2^64, tensor by tensor: the sum is
/// exact, so it does not depend on the order in which a device adds, and every device has the
/// operation. Any single flipped bit changes it; elements that only swap positions in a tensor do
/// not.
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
