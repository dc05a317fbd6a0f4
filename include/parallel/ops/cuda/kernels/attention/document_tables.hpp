// document_tables: packed documents as separate sequences, as tables that other kernels read:
// the length of each document, and its beginning in the memory of tensors.
//
// One block. Each thread reads a run of tokens twice: first to count the documents that end in it
// and, when all threads have counted, to store their lengths and beginnings. Shared memory: one
// index for each thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::cuda::kernels {

/// The beginning of each document in a tensor, in elements. All entries after the last document
/// hold its end; there are at least two such entries, so that a reader that reads one entry too
/// many finds the end too.
struct offset_table {
  std::int64_t* offsets;  // [max_documents + 2]
  std::int64_t sequence;  // elements from one sequence to the next
  std::int64_t row;       // elements from one token to the next
};

struct document_tables {
  static constexpr unsigned threads = 512;
  static constexpr std::size_t shared_bytes = threads * sizeof(index);
  static constexpr int max_tables = 9;

  std::int32_t const* begins;  // [sequences * length], as packed_documents says
  index sequences;
  index length;
  index max_documents;    // at least the number of documents
  std::int32_t* lengths;  // [max_documents]; 0 after the last document
  int count;              // number of tables
  offset_table tables[max_tables];

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const ends = b.template shared<index>();
    index const tokens = sequences * length;
    index const tokens_per_thread = (tokens + b.threads() - 1) / b.threads();
    auto const clamp_token = [&](index token) { return token < tokens ? token : tokens; };
    index const first = clamp_token(b.thread() * tokens_per_thread);
    index const last = clamp_token(first + tokens_per_thread);
    index local_ends = 0;
    for (index token = first; token < last; ++token) local_ends += ends_at(token) ? 1 : 0;
    ends[b.thread()] = local_ends;
    b.sync();
    index document = 0, document_count = 0;
    for (unsigned t = 0; t < b.threads(); ++t) {
      document += t < b.thread() ? ends[t] : 0;
      document_count += ends[t];
    }
    for (index token = first; token < last; ++token)
      if (ends_at(token)) put(document++, token);
    for (index i = document_count + b.thread(); i < max_documents + 2; i += b.threads()) put_end(i);
  }

 private:
  [[nodiscard]] PARALLELLM_DEVICE bool ends_at(index token) const {
    index const next = token % length + 1;
    return next == length || begins[token + 1] == next;
  }
  PARALLELLM_DEVICE void put(index document, index last_token) const {
    if (document >= max_documents) return;
    index const sequence = last_token / length, begin = begins[last_token];
    lengths[document] = static_cast<std::int32_t>(last_token % length + 1 - begin);
    for (int t = 0; t < count; ++t)
      tables[t].offsets[document] = sequence * tables[t].sequence + begin * tables[t].row;
  }
  PARALLELLM_DEVICE void put_end(index document) const {
    if (document < max_documents) lengths[document] = 0;
    for (int t = 0; t < count; ++t)
      tables[t].offsets[document] = (sequences - 1) * tables[t].sequence + length * tables[t].row;
  }
};

}  // namespace parallel::cuda::kernels
