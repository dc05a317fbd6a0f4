// A shard file. The input begins with the number of samples and, for a compressed shard, the size
// that the index would claim. The columns are read from the shard's own header if there is one, so
// that every encoding is reached.
#include <mpt/data/json.hpp>
#include <mpt/data/mds/mds_shard_file.hpp>

#include "../support.hpp"
#include "../targets.hpp"

namespace {

using namespace mpt::data;

/// The layout in the header of a well-formed shard; for other shards one column of tokens.
mds_layout layout_of(std::string_view shard, std::uint64_t samples) {
  auto const table = 4 * (samples + 2);
  mds_layout layout;
  layout.names = {"tokens"};
  layout.encodings = {mds_encoding::parse("ndarray:int32")};
  if (shard.size() < table) return layout;
  auto const begin = detail::load<std::uint32_t>(shard.data() + 4);
  if (begin < table || begin > shard.size()) return layout;
  fuzz::refused([&] {
    layout =
        mds_layout::from_json(parse_json(shard.substr(table, begin - table), "header"), "header");
  });
  return layout;
}

void use(mds_sample const& sample) {
  for (std::size_t column = 0; column < sample.layout().names.size(); ++column) {
    auto const& name = sample.layout().names[column];
    fuzz::refused([&] { static_cast<void>(sample.array(name).to<double>()); });
    fuzz::refused([&] { static_cast<void>(sample.array(name).to<std::int32_t>()); });
    fuzz::refused([&] { static_cast<void>(sample.scalar<std::int64_t>(name)); });
    fuzz::refused([&] { static_cast<void>(sample.json(name)); });
    static_cast<void>(sample.bytes(column));
  }
}

}  // namespace

void fuzz::mds_shard(std::string_view input) {
  static scratch const folder;
  if (input.size() < 6) return;
  mpt::data::mds_shard shard;
  shard.samples = static_cast<unsigned char>(input[0]);
  bool const compressed = (input[1] & 1) != 0;
  auto const claimed = detail::load<std::uint32_t>(input.data() + 2) & 0xffffffU;
  auto const content = input.substr(6);
  shard.layout = layout_of(content, shard.samples);
  shard.raw = {.basename = "s.mds", .bytes = content.size(), .hashes = {}};
  std::filesystem::remove(folder.path() / "s.mds");
  if (compressed) {
    shard.layout.compression = "zstd";
    shard.zip = {.basename = "s.mds.zstd", .bytes = content.size(), .hashes = {}};
    shard.raw.bytes = claimed;
  }
  static_cast<void>(folder.file(compressed ? "s.mds.zstd" : "s.mds", content));
  refused([&] {
    // a shard of an index has been checked to have room for its offsets
    parallel::require(shard.samples <= shard.raw.bytes / 4, "too few bytes");
    mds_shard_file const file(folder.path(), shard, true);
    for (std::uint64_t i = 0; i < file.size(); ++i) refused([&] { use(file.sample(i)); });
  });
}
