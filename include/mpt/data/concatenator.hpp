// LLM Foundry's concatenation rule: documents end to end, cut into samples of N ids.
//
// For every document, buffer += bos ids + ids + eos ids; while the buffer holds N ids, the first N
// are a sample. The tail is dropped. With `wrap::no` the rest of a document that filled a sample is
// thrown away, so that every sample starts with a document. Every sample knows where it starts
// (document and offset), which is all that a restart needs. Cost: O(ids); at most N - 1 ids wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::data {

/// Whether a document that fills a sample continues in the next sample.
enum class wrap { yes, no };

/// A position in the stream of ids: `offset` ids into bos + ids + eos of document `document`.
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
  /// `start`: the first document to be appended, and how many of its ids belong to earlier samples.
  explicit concatenator(concatenator_options options, token_position start = {});

  /// Appends one document; calls `emit(std::span<std::int32_t const>, token_position start)` for
  /// every sample that becomes full. Returns how many ids the document has with bos and eos.
  template <class Emit>
  std::uint64_t append(std::span<std::int32_t const> ids, Emit const& emit) {
    auto const document = next_document_++;
    std::uint64_t const id_count = options_.bos.size() + ids.size() + options_.eos.size();
    auto const skipped_ids = std::exchange(skipped_ids_, 0);
    parallel::require(skipped_ids <= id_count, "a restart points to id ", skipped_ids,
                      " of document ", document, ", which has ", id_count,
                      ": its text or the tokenizer changed; start over in an empty folder");
    std::uint64_t offset = 0;  // of this document, in ids
    for (std::span<std::int32_t const> piece : {std::span<std::int32_t const>(options_.bos), ids,
                                                std::span<std::int32_t const>(options_.eos)}) {
      auto const skipped =
          std::min<std::uint64_t>(piece.size(), skipped_ids - std::min(skipped_ids, offset));
      offset += skipped;
      piece = piece.subspan(static_cast<std::size_t>(skipped));
      while (!piece.empty()) {
        if (buffer_.empty()) start_ = {document, offset};
        auto const count = std::min(piece.size(), options_.sample_ids - buffer_.size());
        buffer_.insert(buffer_.end(), piece.begin(),
                       piece.begin() + static_cast<std::ptrdiff_t>(count));
        piece = piece.subspan(count);
        offset += count;
        if (buffer_.size() == options_.sample_ids) {
          emit(std::span<std::int32_t const>(buffer_), start_);
          buffer_.clear();
          if (options_.wrapping == wrap::no) return id_count;
        }
      }
    }
    return id_count;
  }

 private:
  concatenator_options options_;
  std::uint64_t next_document_;
  std::uint64_t skipped_ids_;
  std::vector<std::int32_t> buffer_;
  token_position start_;
};

}  // namespace mpt::data
