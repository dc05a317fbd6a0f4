// reshard: rewrites a checkpoint as another number of ranks would have written it.
//
// Any number of ranks can continue any checkpoint, so a run never needs this: it makes few files of
// many, to copy or to keep, or as many files as the ranks of a larger run, which then each read few
// files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>

namespace parallel::checkpoint {

/// Writes `from` into the folder `root`, under its own name, in the files of `ranks` ranks that
/// have equal parts of all bytes. Checks every slice of `from` first. Holds `piece_bytes` of
/// values, which no slice of the result exceeds. Throws when `root` has a checkpoint of this name,
/// and leaves nothing behind. Returns the folder written. The caller keeps other writers out of
/// `root` (folder_claim.hpp). Cost: reads `from` twice.
inline std::filesystem::path reshard(checkpoint_reader const& from,
                                     std::filesystem::path const& root, index ranks,
                                     std::size_t piece_bytes = std::size_t{1} << 26) {
  auto const source = std::filesystem::canonical(from.folder());
  auto const id = checkpoint_id::parse(source.filename().native());
  require(id.has_value(), source.native(), ": is not named like a checkpoint, ep0-ba100");
  require(1 <= ranks && ranks <= 100'000, "reshard: expected 1 to 100000 ranks, not ", ranks);
  save_target const target{root, *id, static_cast<std::uint64_t>(id->batch)};
  require(!files::exists(target.folder()), target.folder().native(),
          ": exists already; choose another folder");
  from.verify();

  std::uint64_t total = 0;
  for (auto const& [name, tensor] : from.tensors())
    total += static_cast<std::uint64_t>(tensor.size()) * size_of(tensor.type);
  auto const bytes_per_rank = std::max<std::uint64_t>(
      1, (total + static_cast<std::uint64_t>(ranks) - 1) / static_cast<std::uint64_t>(ranks));
  prepare_save(target);
  try {
    std::vector<std::string> records;
    index rank = 0;
    std::uint64_t room = bytes_per_rank;  // bytes that this rank still takes
    std::optional<rank_writer> writer(std::in_place, target, rank);
    std::vector<std::byte> piece;
    for (auto const& [name, tensor] : from.tensors()) {
      auto const width = size_of(tensor.type);
      index begin = 0;
      do {  // a tensor without elements is written too
        if (room < width && rank + 1 < ranks) {
          records.push_back(writer->finish());
          writer.emplace(target, ++rank);
          room += bytes_per_rank;
        }
        auto const max_count = std::max<std::uint64_t>(
            1, std::min<std::uint64_t>(rank + 1 < ranks ? room : total, piece_bytes) / width);
        auto const count = std::min(tensor.size() - begin, static_cast<index>(max_count));
        piece.resize(static_cast<std::size_t>(count) * width);
        from.read_bytes(name, begin, piece);
        writer->add(name, tensor.type, tensor.extents, begin, piece);
        begin += count;
        room -= std::min<std::uint64_t>(room, piece.size());
      } while (begin < tensor.size());
    }
    records.push_back(writer->finish());
    commit(target, records, from.state().dump());
  } catch (...) {
    abandon_save(target);
    throw;
  }
  return target.folder();
}

}  // namespace parallel::checkpoint
