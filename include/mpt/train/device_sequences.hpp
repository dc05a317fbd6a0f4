// device_sequences: a batch's sequences where the device's operations read them.
//
// Where the host's memory will do they stay as they are; else ids, labels and the beginnings of
// documents are copied to the device, into memory that serves batch after batch.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <mpt/train/sequences.hpp>
#include <parallel/device/transfer.hpp>

namespace mpt {

template <class Device>
class device_sequences {
 public:
  /// Nothing yet. `device` must outlive it.
  explicit device_sequences(Device const& device) : device_(&device) {}

  /// Replaces the sequences; nothing may be reading the ones before. Blocks.
  void assign(sequences batch) {
    batch_ = std::move(batch);
    if constexpr (!parallel::host_reaches<Device>) {
      auto const all = batch_.view({0, batch_.count()});
      ids_.assign(*device_, all.ids.span());
      labels_.assign(*device_, all.labels.span());
      document_begins_.assign(*device_, all.document_begins);
    }
  }

  [[nodiscard]] index count() const { return batch_.count(); }

  /// At least `least` microbatches of `size` sequences, empty ones last, as views that are valid
  /// until the next `place`, and where each begins in the global batch, of which this rank's
  /// sequences begin at `begin`.
  [[nodiscard]] std::pair<std::vector<microbatch>, std::vector<index>> microbatches(
      index size, index begin, std::size_t least) const {
    std::pair<std::vector<microbatch>, std::vector<index>> out;
    for (auto const& part : parallel::data::microbatches({0, count()}, size)) {
      out.first.push_back(view(part));
      out.second.push_back(begin + part.begin);
    }
    out.first.resize(least);
    out.second.resize(least);
    return out;
  }

  /// As sequences::view; valid until the next `place`.
  [[nodiscard]] microbatch view(parallel::data::share part) const {
    auto out = batch_.view(part);
    if constexpr (!parallel::host_reaches<Device>) {
      index const first = part.begin * batch_.length();
      out.ids = {ids_.at(first), out.ids.extents()};
      out.labels = {labels_.at(first), out.labels.extents()};
      auto const documents = out.document_begins.size();
      if (documents > 0) {
        auto const each = static_cast<index>(documents) / part.size();
        out.document_begins = {std::span(document_begins_.at(part.begin * each), documents),
                               out.document_begins.count()};
      }
    }
    return out;
  }

 private:
  /// Grows to the longest batch.
  struct device_memory {
    buffer<std::int32_t> memory;

    void assign(Device const& device, std::span<std::int32_t const> from) {
      if (memory.size() < from.size()) memory = device.template allocate<std::int32_t>(from.size());
      device.upload(memory.span().first(from.size()), from);
    }
    [[nodiscard]] std::int32_t const* at(index i) const { return memory.data() + i; }
  };

  Device const* device_;
  sequences batch_;
  device_memory ids_;
  device_memory labels_;
  device_memory document_begins_;
};

}  // namespace mpt
