// Packed documents as separate sequences in a graph of attention: the length of each document, and
// its beginning in every tensor, which such a graph reads in addition to the tensors of attention.
//
// The device computes all of it from the beginnings of documents, so that nothing waits for the
// host. Unused sequences have length 0. cuDNN accepts documents anywhere in a tensor: q, k and v
// stay columns of one matrix, and lse stays [B, H, S].
//
// No GPU has run this form without an error yet: before its graph was corrected, its backward pass
// read memory that was not allocated, on an H100 (docs/gpu.md). An illegal access ends a process's
// context, so the form is used only if a tuning table requests it, and it is never timed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <parallel/ops/attention/attention_options.hpp>
#include <parallel/ops/cuda/attention/document_tables.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/cudnn/plan.hpp>
#include <parallel/ops/cuda/scratch.hpp>

namespace parallel::cuda::cudnn {

/// The number of documents for which `problem` could be requested with sequences; 0: it cannot. The
/// deterministic gradient would need S x S numbers for each document and head. If head_dim is not a
/// multiple of 16, cuDNN's own graphs do not store sums of all documents one after another.
[[nodiscard]] inline index documents_of(attention_problem const& problem,
                                        ops::attention_options const& options) {
  if (!problem.documents || options.positions.sequence_length != 0 || problem.deterministic ||
      problem.head_dim % 16 != 0)
    return 0;
  return document_bound(options.document_begins.count(), problem.batch * problem.sequence);
}

/// The bytes that a plan with this workspace uses of the reserve, without the tables.
[[nodiscard]] inline std::size_t used_document_reserve(std::size_t workspace,
                                                       attention_problem const& form) {
  if (form.max_documents == 0) return 0;
  return std::min(document_plan_reserve(max_documents(form.batch * form.sequence)),
                  scratch_piece(workspace));
}

/// Bytes of scratch for the float sums of dq. With documents as sequences the sums are in rows as
/// wide as those of dq, including the last row; otherwise one after another.
[[nodiscard]] inline std::size_t query_sums_bytes(attention_problem const& form) {
  if (form.deterministic) return 0;
  auto const count = form.max_documents > 0
                         ? (form.batch - 1) * form.dq.batch + form.sequence * form.dq.row
                         : form.batch * form.heads * form.sequence * form.head_dim;
  return static_cast<std::size_t>(count) * sizeof(float);
}

/// Bytes of scratch for the gradients of keys, or values, of every query head, whose sums have the
/// strides `sum`. This is the size that NVIDIA's own graphs use, twice that of the elements. 0:
/// none are stored.
[[nodiscard]] inline std::size_t per_head_bytes(attention_problem const& form,
                                                attention_strides const& sum) {
  if (form.max_documents == 0 || form.heads == form.key_heads) return 0;
  auto const rows = form.per_head_strides(sum);
  return static_cast<std::size_t>((form.batch - 1) * rows.batch + form.sequence * rows.row) *
         sizeof(float);
}

namespace detail {

/// The strides of a tensor that has a table of offsets of its own; nullopt for other tensors.
[[nodiscard]] inline std::optional<attention_strides> rows_of(std::int64_t uid,
                                                              attention_problem const& form) {
  namespace uids = attention_uid;
  switch (uid) {
    case uids::q: return form.q;
    case uids::k: return form.k;
    case uids::v: return form.v;
    case uids::out: return form.out;
    case uids::dq: return form.dq;
    case uids::dk: return form.dk;
    case uids::dv: return form.dv;
    case uids::dout: return form.dout;
    case uids::lse: return attention_strides{form.heads * form.sequence, 1};
    default: return std::nullopt;
  }
}

}  // namespace detail

/// Enqueues the tables that a graph of `form` reads in addition to `tensors`, and adds them to
/// those.
inline void add_document_tables(stream& s, attention_problem const& form,
                                std::int32_t const* begins, std::byte* memory,
                                std::vector<binding>& tensors) {
  kernels::document_tables new_tables{.begins = begins,
                                      .sequences = form.batch,
                                      .length = form.sequence,
                                      .max_documents = form.max_documents,
                                      .lengths = reinterpret_cast<std::int32_t*>(memory),
                                      .count = 0,
                                      .tables = {}};
  memory += lengths_bytes(new_tables.max_documents);
  std::vector<binding> added = {{attention_uid::lengths, new_tables.lengths}};
  for (auto const& tensor : tensors)
    if (auto const rows = detail::rows_of(tensor.uid, form)) {
      auto* const offsets = reinterpret_cast<std::int64_t*>(memory);
      memory += offsets_bytes(new_tables.max_documents);
      new_tables.tables[new_tables.count++] = {offsets, rows->batch, rows->row};
      added.push_back({attention_uid::offsets_of(tensor.uid), offsets});
    }
  make_document_tables(s, new_tables);
  tensors.insert(tensors.end(), added.begin(), added.end());
}

}  // namespace parallel::cuda::cudnn
