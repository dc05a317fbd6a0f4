// Packed documents as sequences of their own in a graph of attention: what such a graph reads
// beside the tensors of attention, how long each document is and where it begins in every tensor.
//
// On the device all of it is made of where documents begin, so that nothing waits for the host.
// Unused sequences are of length 0. cuDNN takes documents anywhere in a tensor: q, k and v stay the
// columns of one matrix, lse stays [B, H, S].
//
// No GPU has run the form clean yet: its backward pass read memory that nobody had allocated on an
// H100 (docs/gpu.md), before its graph was mended. An illegal access ends a process's context, so
// it is taken only where a table of tuning asks for it, and never timed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <parallel/ops/attention_options.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/cudnn/plan.hpp>
#include <parallel/ops/cuda/document_tables.hpp>
#include <parallel/ops/cuda/scratch.hpp>

namespace parallel::cuda::cudnn {

/// For how many documents `problem` is asked as sequences; 0: it cannot be. The deterministic
/// gradient would need S x S numbers for each document and head, and of a head_dim that is not a
/// multiple of 16 cuDNN's own graphs keep no sums of all documents one after another.
[[nodiscard]] inline index documents_of(attention_problem const& problem,
                                        ops::attention_options const& options) {
  if (!problem.documents || options.positions.sequence_length != 0 || problem.deterministic ||
      problem.head_dim % 16 != 0)
    return 0;
  return document_bound(options.document_begins.count(), problem.batch * problem.sequence);
}

/// Of the scratch that there is beside the tables, the bytes that a plan with this workspace takes.
[[nodiscard]] inline std::size_t taken_of_room(std::size_t workspace,
                                               attention_problem const& form) {
  if (form.most_documents == 0) return 0;
  return std::min(document_room(most_documents(form.batch * form.sequence)),
                  scratch_piece(workspace));
}

/// Bytes of scratch for the float sums of dq. Of documents as sequences they lie in rows as wide as
/// those of dq, the last one too; else one after another.
[[nodiscard]] inline std::size_t query_sums_bytes(attention_problem const& form) {
  if (form.deterministic) return 0;
  auto const count = form.most_documents > 0
                         ? (form.batch - 1) * form.dq.batch + form.sequence * form.dq.row
                         : form.batch * form.heads * form.sequence * form.head_dim;
  return static_cast<std::size_t>(count) * sizeof(float);
}

/// Bytes of scratch for every query head's gradients of keys, or values, whose sums have the
/// strides `sum`: as many as NVIDIA's own graphs take, of which the elements are half. 0: none are
/// kept.
[[nodiscard]] inline std::size_t each_head_bytes(attention_problem const& form,
                                                 attention_strides const& sum) {
  if (form.most_documents == 0 || form.heads == form.key_heads) return 0;
  auto const rows = form.each_head_of(sum);
  return static_cast<std::size_t>((form.batch - 1) * rows.batch + form.sequence * rows.row) *
         sizeof(float);
}

namespace detail {

/// How the rows of a tensor lie that has a table of offsets of its own; of others nothing.
[[nodiscard]] inline std::optional<attention_strides> rows_of(std::int64_t uid,
                                                              attention_problem const& form) {
  namespace of = attention_uid;
  switch (uid) {
    case of::q: return form.q;
    case of::k: return form.k;
    case of::v: return form.v;
    case of::out: return form.out;
    case of::dq: return form.dq;
    case of::dk: return form.dk;
    case of::dv: return form.dv;
    case of::dout: return form.dout;
    case of::lse: return attention_strides{form.heads * form.sequence, 1};
    default: return std::nullopt;
  }
}

}  // namespace detail

/// Enqueues the tables that a graph of `form` reads beside `tensors`, and adds them to those.
inline void add_document_tables(stream& s, attention_problem const& form,
                                std::int32_t const* begins, std::byte* memory,
                                std::vector<binding>& tensors) {
  kernels::document_tables made{.begins = begins,
                                .sequences = form.batch,
                                .length = form.sequence,
                                .most = form.most_documents,
                                .lengths = reinterpret_cast<std::int32_t*>(memory),
                                .count = 0,
                                .tables = {}};
  memory += lengths_bytes(made.most);
  std::vector<binding> added = {{attention_uid::lengths, made.lengths}};
  for (auto const& each : tensors)
    if (auto const rows = detail::rows_of(each.uid, form)) {
      auto* const offsets = reinterpret_cast<std::int64_t*>(memory);
      memory += offsets_bytes(made.most);
      made.tables[made.count++] = {offsets, rows->batch, rows->row};
      added.push_back({attention_uid::offsets_of(each.uid), offsets});
    }
  make_document_tables(s, made);
  tensors.insert(tensors.end(), added.begin(), added.end());
}

}  // namespace parallel::cuda::cudnn
