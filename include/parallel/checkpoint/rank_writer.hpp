// rank_writer: writes the files of one rank's slices in a checkpoint that is being saved.
//
// Slices are written in the order of `add`, so the header's space is reserved beforehand; when it
// is full, another file is begun. Files are ordinary safetensors with one element type each, so
// that tensors are aligned without holes, which the format forbids. Memory: the records; each slice
// is hashed and written once, directly from the caller's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/checkpoint/format/slice.hpp>
#include <parallel/checkpoint/save_target.hpp>
#include <parallel/core/file.hpp>

namespace parallel::checkpoint {

struct rank_writer_options {
  std::uint64_t header_bytes = std::uint64_t{1} << 16;  ///< reserved in each file; at least 16 KiB
  action_hook on_action = {};
};

/// Writes one rank's slices as safetensors files "rank-00003-F32-000.safetensors": one for each
/// element type, so that all are aligned, and another one whenever the header's reserved space is
/// full. A whole tensor has its own name and shape there, a part is "name@begin-end", columns of
/// rows are "name@begin-end:run".
class rank_writer {
 public:
  rank_writer(save_target const& target, index rank, rank_writer_options options = {})
      : folder_(target.temporary()), rank_(rank), options_(std::move(options)) {
    require(rank >= 0, "a checkpoint's rank must not be negative, got ", rank);
    require(options_.header_bytes >= 16384 && options_.header_bytes % 8 == 0,
            "a rank_writer's header_bytes must be a multiple of 8 from 16384 on, got ",
            options_.header_bytes);
  }

  /// Writes elements of the tensor `name` of shape `extents` (row-major), which `bytes` holds:
  /// those from `begin` on, or with a `run`, so many of a row from `begin` on and the same columns
  /// of the rows that follow. Each element of a tensor must be added by exactly one rank. Adding no
  /// elements of a non-empty tensor does nothing.
  void add(std::string const& name, element_type type, std::span<index const> extents, index begin,
           std::span<std::byte const> bytes, index run = 0) {
    require(is_tensor_name(name), "\"", name,
            "\" cannot name a tensor in a checkpoint: use 1 to 1024 bytes without '@'");
    auto const location = concat("checkpoint slice of \"", name, "\"");
    auto const width = size_of(type);
    require(width > 0 && bytes.size() % width == 0, location, ": ", bytes.size(),
            " bytes are not whole elements of ", to_string(type));
    index const size = checked_volume(extents, width, location);
    auto const count = static_cast<index>(bytes.size() / width);
    require(begin >= 0 && begin <= size && count <= size - begin, location, ": ", count,
            " elements from ", begin, " on do not lie within shape ", shape_text(extents));
    if (count == 0 && size != 0) return;
    slice_record slice;
    slice.begin = begin;
    slice.end = begin + count;
    slice.bytes = bytes.size();
    bool const whole = count == size;
    std::vector<index> shape{count};
    if (run > 0) {
      require(extents.size() >= 2 && run > 0 && count % run == 0, location, ": ", count,
              " elements are not whole runs of ", run, " of rows of shape ", shape_text(extents));
      slice.run = run;
      slice.stride = size / extents[0];
      slice.end = begin + (count / run - 1) * slice.stride + run;
      require(begin % slice.stride + run <= slice.stride && slice.end <= size, location, ": ",
              count, " elements from ", begin, " on, ", run,
              " of each row, do not lie within shape ", shape_text(extents));
      shape = {count / run, run};
    }
    if (whole) shape.assign(extents.begin(), extents.end());
    auto const part_name =
        concat(name, "@", begin, "-", slice.end, run > 0 ? concat(":", run) : "");
    tensor_entry entry{.name = whole ? name : part_name,
                       .type_name = std::string(to_string(type)),
                       .type = type,
                       .extents = std::move(shape)};
    require(names_.insert(entry.name).second, location, ": elements ", begin, " to ", slice.end,
            " were added twice");
    auto& file = part_for(entry, bytes.size());
    slice.offset = options_.header_bytes + file.data_bytes;
    slice.file = file.out.path().filename().native();
    slice.checksum = checksum(bytes);
    files::announce(options_.on_action, "write slice");
    file.out.write(slice.offset, bytes);
    file.data_bytes += bytes.size();
    auto& tensor = records_.tensors
                       .try_emplace(name, sliced_tensor{type, {extents.begin(), extents.end()}, {}})
                       .first->second;
    require(tensor.type == type && std::equal(extents.begin(), extents.end(),
                                              tensor.extents.begin(), tensor.extents.end()),
            location, ": added with another type or shape before");
    tensor.slices.push_back(std::move(slice));
  }

  /// Adds a slice given as elements instead of bytes.
  template <class T>
  void add(std::string const& name, std::span<index const> extents, index begin,
           std::span<T const> elements, index run = 0) {
    add(name, element_type_of(dtype_of<T>), extents, begin, std::as_bytes(elements), run);
  }

  /// Completes and flushes the files. Returns the records that `commit` wants (JSON).
  [[nodiscard]] std::string finish() {
    for (auto& [type, file] : open_) close(file);
    open_.clear();
    return "{\n" + format_slices(records_, folder_.native()) + "}\n";
  }

 private:
  struct part {
    output_file out;
    std::string header;  // members of the header's object so far
    std::uint64_t data_bytes = 0;
  };

  // The file for the next tensor; adds `entry` to its header.
  part& part_for(tensor_entry& entry, std::uint64_t bytes) {
    auto found = open_.find(entry.type);
    auto const format_at = [&](std::uint64_t begin) {
      entry.begin = begin;
      entry.end = begin + bytes;
      return format_tensor_entry(entry, folder_.native());
    };
    std::string text;
    if (found != open_.end()) {
      text = format_at(found->second.data_bytes);
      if (8 + found->second.header.size() + text.size() + 3 > options_.header_bytes) {
        close(found->second);
        open_.erase(found);
        found = open_.end();
      }
    }
    if (found == open_.end()) {
      text = format_at(0);
      auto digits = std::to_string(parts_[entry.type]++);
      auto rank = std::to_string(rank_);
      digits.insert(0, digits.size() < 3 ? 3 - digits.size() : 0, '0');
      rank.insert(0, rank.size() < 5 ? 5 - rank.size() : 0, '0');
      auto const name = concat("rank-", rank, "-", entry.type_name, "-", digits, ".safetensors");
      files::announce(options_.on_action, "create rank file");
      found = open_
                  .emplace(entry.type,
                           part{output_file(folder_ / name, output_file::existing::refuse), {}, 0})
                  .first;
    }
    auto& file = found->second;
    if (!file.header.empty()) file.header += ',';
    file.header += text;
    return file;
  }

  void close(part& file) {
    auto const& path = file.out.path();
    auto const header =
        pack_safetensors_header("{" + file.header + "}", options_.header_bytes, path.native());
    files::announce(options_.on_action, "write header");
    file.out.write(0, std::as_bytes(std::span(header)));
    files::announce(options_.on_action, "flush rank file");
    file.out.sync();
    auto const name = path.filename().native();
    records_.files.emplace(name, options_.header_bytes + file.data_bytes);
    records_.headers.emplace(name, checksum(header));
  }

  std::filesystem::path folder_;
  index rank_;
  rank_writer_options options_;
  std::map<element_type, part> open_;
  std::map<element_type, index> parts_;
  std::set<std::string> names_;
  slice_set records_;
};

}  // namespace parallel::checkpoint
