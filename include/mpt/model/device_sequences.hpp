// device_sequences: a batch's sequences in memory that the device's operations can read.
//
// If the device reads the host's memory, the sequences stay there; else ids, labels and the
// beginnings of documents are copied to the device, into memory that is reused batch after batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <mpt/model/sequences.hpp>
#include <parallel/device/transfer.hpp>

namespace mpt {

template <class Device>
class device_sequences {
 public:
  /// Holds no sequences. `device` must outlive it.
  explicit device_sequences(Device const& device) : device_(&device) {}

  /// Replaces the sequences; no operation may still read the previous ones. Blocks.
  void assign(sequences batch) {
    batch_ = std::move(batch);
    if constexpr (!parallel::host_reaches<Device>) {
      auto const whole = batch_.view({0, batch_.count()});
      ids_.assign(*device_, whole.ids.span());
      labels_.assign(*device_, whole.labels.span());
      document_begins_.assign(*device_, whole.document_begins);
    }
  }

  [[nodiscard]] index count() const { return batch_.count(); }

  /// At least `min_count` microbatches of `size` sequences, empty ones last, as views that are
  /// valid until the next `assign`, and the first row of each in the global batch, in which this
  /// rank's sequences begin at `begin`.
  [[nodiscard]] std::pair<std::vector<microbatch>, std::vector<index>> microbatches(
      index size, index begin, std::size_t min_count) const {
    std::pair<std::vector<microbatch>, std::vector<index>> out;
    for (auto const& share : parallel::data::microbatches({0, count()}, size)) {
      out.first.push_back(view(share));
      out.second.push_back(begin + share.begin);
    }
    out.first.resize(min_count);
    out.second.resize(min_count);
    return out;
  }

  /// The same as sequences::view; valid until the next `assign`.
  [[nodiscard]] microbatch view(parallel::data::share share) const {
    auto out = batch_.view(share);
    if constexpr (!parallel::host_reaches<Device>) {
      index const first = share.begin * batch_.length();
      out.ids = {ids_.from_index(first), out.ids.extents()};
      out.labels = {labels_.from_index(first), out.labels.extents()};
      auto const documents = out.document_begins.size();
      if (documents > 0) {
        auto const per_sequence = static_cast<index>(documents) / share.size();
        out.document_begins = {
            std::span(document_begins_.from_index(share.begin * per_sequence), documents),
            out.document_begins.count()};
      }
    }
    return out;
  }

 private:
  /// Device memory that grows to the longest batch.
  struct device_memory {
    buffer<std::int32_t> memory;

    void assign(Device const& device, std::span<std::int32_t const> source) {
      if (memory.size() < source.size())
        memory = device.template allocate<std::int32_t>(source.size());
      device.upload(memory.span().first(source.size()), source);
    }
    [[nodiscard]] std::int32_t const* from_index(index i) const { return memory.data() + i; }
  };

  Device const* device_;
  sequences batch_;
  device_memory ids_;
  device_memory labels_;
  device_memory document_begins_;
};

}  // namespace mpt
