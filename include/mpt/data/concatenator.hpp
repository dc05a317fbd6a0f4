// LLM Foundry's concatenation rule: documents end to end, cut into samples of N ids.
//
// For every document, buffer += bos ids + ids + eos ids; while the buffer holds N ids, the first N
// are a sample. The tail is dropped. With `wrap::no` what is left of a document after it filled a
// sample is thrown away, so that every sample starts with a document. Every sample knows where it
// starts (document and offset), which is all a restart needs. Cost: O(ids); at most N - 1 ids wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::data {

/// Whether a document that fills a sample goes on in the next one.
enum class wrap { yes, no };

/// A place in the stream of ids: `offset` ids into bos + ids + eos of document number `document`.
struct token_position {
  std::uint64_t document = 0;
  std::uint64_t offset = 0;
  friend bool operator==(token_position const&, token_position const&) = default;
};

struct concatenator_options {
  std::size_t sample_ids = 2048;  ///< N
  std::vector<std::int32_t> bos{};
  std::vector<std::int32_t> eos{};
  wrap wrapping = wrap::yes;
};

class concatenator {
 public:
  /// `from`: the first document to be appended, and how many of its ids belong to earlier samples.
  explicit concatenator(concatenator_options options, token_position from = {});

  /// Appends one document; calls `emit(std::span<std::int32_t const>, token_position start)` for
  /// every sample that becomes full. Returns how many ids the document has with bos and eos.
  template <class Emit>
  std::uint64_t append(std::span<std::int32_t const> ids, Emit const& emit) {
    auto const document = next_document_++;
    std::uint64_t const total = options_.bos.size() + ids.size() + options_.eos.size();
    auto const earlier = std::exchange(skip_, 0);
    parallel::require(earlier <= total, "a restart points to id ", earlier, " of document ",
                      document, ", which has ", total,
                      ": its text or the tokenizer changed; start over in an empty folder");
    std::uint64_t at = 0;  // ids of this document that have been looked at
    for (std::span<std::int32_t const> part : {std::span<std::int32_t const>(options_.bos), ids,
                                               std::span<std::int32_t const>(options_.eos)}) {
      auto const dropped = std::min<std::uint64_t>(part.size(), earlier - std::min(earlier, at));
      at += dropped;
      part = part.subspan(static_cast<std::size_t>(dropped));
      while (!part.empty()) {
        if (buffer_.empty()) start_ = {document, at};
        auto const taken = std::min(part.size(), options_.sample_ids - buffer_.size());
        buffer_.insert(buffer_.end(), part.begin(),
                       part.begin() + static_cast<std::ptrdiff_t>(taken));
        part = part.subspan(taken);
        at += taken;
        if (buffer_.size() == options_.sample_ids) {
          emit(std::span<std::int32_t const>(buffer_), start_);
          buffer_.clear();
          if (options_.wrapping == wrap::no) return total;
        }
      }
    }
    return total;
  }

  /// Ids that wait for a full sample.
  [[nodiscard]] std::size_t waiting() const { return buffer_.size(); }

 private:
  concatenator_options options_;
  std::uint64_t next_document_;
  std::uint64_t skip_;
  std::vector<std::int32_t> buffer_;
  token_position start_;
};

}  // namespace mpt::data
