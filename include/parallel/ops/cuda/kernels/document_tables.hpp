// document_tables: packed documents as sequences of their own, as tables that other kernels read:
// how long each is, and where it begins in the memory of tensors.
//
// One block; a thread takes a run of tokens twice: to count the documents that end in it, and, when
// all have counted, to say where those lie. Shared memory: an index for each thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::cuda::kernels {

/// Where each document begins in a tensor, in elements, and after the last where that ends: so many
/// times as there are no more of them, and twice at least, so that who reads an element too many
/// finds the end too.
struct offset_table {
  std::int64_t* offsets;  // [most + 2]
  std::int64_t sequence;  // elements from one sequence to the next
  std::int64_t row;       // and from one token to the next
};

struct document_tables {
  static constexpr unsigned threads = 512;
  static constexpr std::size_t shared_bytes = threads * sizeof(index);
  static constexpr int most_tables = 9;

  std::int32_t const* begins;  // [sequences * length], as packed_documents says
  index sequences;
  index length;
  index most;             // documents that there may be, and no fewer than there are
  std::int32_t* lengths;  // [most], 0 of those that there are not
  int count;              // of tables
  offset_table tables[most_tables];

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const ends = b.template shared<index>();
    index const tokens = sequences * length;
    index const each = (tokens + b.threads() - 1) / b.threads();
    auto const within = [&](index token) { return token < tokens ? token : tokens; };
    index const first = within(b.thread() * each);
    index const last = within(first + each);
    index here = 0;
    for (index token = first; token < last; ++token) here += ends_at(token) ? 1 : 0;
    ends[b.thread()] = here;
    b.sync();
    index before = 0, all = 0;
    for (unsigned t = 0; t < b.threads(); ++t) {
      before += t < b.thread() ? ends[t] : 0;
      all += ends[t];
    }
    for (index token = first; token < last; ++token)
      if (ends_at(token)) put(before++, token);
    for (index i = all + b.thread(); i < most + 2; i += b.threads()) put_end(i);
  }

 private:
  [[nodiscard]] PARALLELLM_DEVICE bool ends_at(index token) const {
    index const next = token % length + 1;
    return next == length || begins[token + 1] == next;
  }
  PARALLELLM_DEVICE void put(index document, index last_token) const {
    if (document >= most) return;
    index const sequence = last_token / length, begin = begins[last_token];
    lengths[document] = static_cast<std::int32_t>(last_token % length + 1 - begin);
    for (int t = 0; t < count; ++t)
      tables[t].offsets[document] = sequence * tables[t].sequence + begin * tables[t].row;
  }
  PARALLELLM_DEVICE void put_end(index document) const {
    if (document < most) lengths[document] = 0;
    for (int t = 0; t < count; ++t)
      tables[t].offsets[document] = (sequences - 1) * tables[t].sequence + length * tables[t].row;
  }
};

}  // namespace parallel::cuda::kernels
