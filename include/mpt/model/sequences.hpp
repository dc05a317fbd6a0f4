// sequences: rows of ids with their labels, cut into microbatches without copying.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <mpt/finetune/rows.hpp>
#include <mpt/model/microbatch.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/context_parallel/sequence_partition.hpp>
#include <parallel/data/share.hpp>

namespace mpt {

/// The token between documents packed into a sequence.
struct document_separator {
  enum class side { none, ends_document, begins_document };
  side boundary = side::none;  ///< whether it is a document's last token (eos) or its first (bos)
  std::int32_t id = 0;
};

/// Rows of `length` ids with labels: the id that follows each, or -100 where none is trained on.
/// The labels of a row of text are its ids moved left by one. `divided` returns the part of each
/// row that a rank of the context axis holds.
class sequences {
 public:
  sequences() = default;

  /// Takes ids [sequences * length]; with a separator also finds where documents begin.
  sequences(std::vector<std::int32_t> ids, index length, document_separator separator = {});

  /// Rows of examples, with their labels and where each begins.
  explicit sequences(finetune::rows rows)
      : length_(static_cast<index>(rows.length)),
        whole_length_(length_),
        ids_(std::move(rows.ids)),
        labels_(std::move(rows.labels)),
        document_begins_(std::move(rows.document_begins)) {
    count_labels();
  }

  /// Whole sequences as rows.
  [[nodiscard]] finetune::rows rows() const;

  [[nodiscard]] index count() const;
  [[nodiscard]] index length() const { return length_; }

  /// The part of every sequence that `part` selects; the sequences' length must be part.whole().
  [[nodiscard]] sequences divided(parallel::context_parallel::sequence_partition const& part) const;

  /// These and sequences without labels, `count` in all, of `length` where there are none yet.
  [[nodiscard]] sequences filled_up(index count, index length) const;

  /// Sequences [part.begin, part.end) as a microbatch; valid while this batch lives.
  [[nodiscard]] microbatch view(parallel::data::share part) const;

  /// A microbatch of the right shape without data, for the meta device.
  [[nodiscard]] static microbatch shape_of(index count, index length);

 private:
  /// Where documents begin in sequences [part.begin, part.end), and how many there are.
  [[nodiscard]] parallel::packed_documents documents(parallel::data::share part) const;

  /// Counts the labels of each sequence.
  void count_labels();

  /// Finds documents as LLM Foundry does: a separator that ends a document belongs to the ids
  /// before it, one that begins a document to the ids after it.
  void find_documents(document_separator separator);

  index length_ = 0;        // of the rows held here
  index whole_length_ = 0;  // of whole sequences
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> sequence_tokens_;  // labels of each whole sequence
  std::vector<std::int32_t> document_begins_;
};

}  // namespace mpt
