#include <mpt/data/mds/mds_writer.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include <zstd.h>

#include <mpt/data/hash.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data {
namespace {

/// The zstd level of a compression name. Throws for other compressions.
[[nodiscard]] int zstd_level(std::string_view compression) {
  if (compression == "zstd") return 3;
  int level = 0;
  auto const digits = compression.substr(std::min<std::size_t>(5, compression.size()));
  auto const [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), level);
  parallel::require(compression.starts_with("zstd:") && status == std::errc{} &&
                        end == digits.data() + digits.size() && level >= 1 && level <= 22,
                    "compression '", compression,
                    "' is not supported; use none, zstd, or zstd:1 to zstd:22");
  return level;
}

}  // namespace

mds_writer::mds_writer(std::filesystem::path folder, mds_writer_options const& options,
                       std::vector<mds_shard> finished)
    : folder_(std::move(folder)),
      layout_(detail::layout_of(options)),
      header_(python_json(layout_.to_json())),
      shards_(std::move(finished)) {
  std::filesystem::create_directories(folder_);
  reset();
}

bool mds_writer::write(std::span<std::string_view const> values) {
  auto const& encodings = layout_.encodings;
  parallel::require(values.size() == encodings.size(), "a sample of this set has ",
                    encodings.size(), " columns, ", values.size(), " values were given");
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const size = values[i].size();
    auto const& fixed = encodings[i].fixed_bytes;
    parallel::require(!fixed || *fixed == size, "column '", layout_.names[i], "' of encoding '",
                      encodings[i].name, "' needs ", fixed.value_or(0), " bytes, ", size,
                      " were given");
    bytes += size + (fixed ? 0 : 4);
  }
  bool const full =
      layout_.size_limit && !offsets_.empty() && *layout_.size_limit < shard_bytes() + bytes + 4;
  if (full) flush();
  parallel::require((shard_bytes() + bytes + 4) >> 32 == 0, folder_.native(),
                    ": a shard would have 4 GiB or more; set a size_limit");
  offsets_.push_back(samples_.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!encodings[i].fixed_bytes)
      detail::store(samples_, static_cast<std::uint32_t>(values[i].size()));
  for (auto const value : values) samples_ += value;
  return full;
}

std::vector<mds_shard> const& mds_writer::finish() {
  if (!offsets_.empty()) flush();
  parallel::replace_text_file(folder_ / "index.json", print_mds_index(shards_));
  return shards_;
}

std::uint64_t mds_writer::shard_bytes() const {
  return 4 + 4 * (offsets_.size() + 1) + header_.size() + samples_.size();
}

void mds_writer::reset() {
  offsets_.clear();
  samples_.clear();
}

mds_file mds_writer::describe(std::string basename, std::string_view content) const {
  mds_file out{std::move(basename), content.size(), {}};
  for (auto const& algorithm : layout_.hashes) out.hashes[algorithm] = hash_of(algorithm, content);
  return out;
}

void mds_writer::flush() {
  auto const first = shard_bytes() - samples_.size();
  std::string raw;
  raw.reserve(shard_bytes());
  detail::store(raw, static_cast<std::uint32_t>(offsets_.size()));
  for (auto const offset : offsets_) detail::store(raw, static_cast<std::uint32_t>(first + offset));
  detail::store(raw, static_cast<std::uint32_t>(first + samples_.size()));
  raw += header_;
  raw += samples_;

  mds_shard shard;
  shard.layout = layout_;
  shard.samples = offsets_.size();
  auto number = std::to_string(shards_.size());
  number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
  shard.raw = describe("shard." + number + ".mds", raw);
  if (layout_.compression.empty()) {
    parallel::replace_text_file(folder_ / shard.raw.basename, raw);
  } else {
    raw = detail::zstd_compress(raw, zstd_level(layout_.compression));
    shard.zip = describe(shard.raw.basename + ".zstd", raw);
    parallel::replace_text_file(folder_ / shard.zip->basename, raw);
  }
  shards_.push_back(std::move(shard));
  reset();
}

}  // namespace mpt::data

namespace mpt::data::detail {

std::string zstd_compress(std::string_view data, int level) {
  std::string out(ZSTD_compressBound(data.size()), '\0');
  auto const size = ZSTD_compress(out.data(), out.size(), data.data(), data.size(), level);
  parallel::require(ZSTD_isError(size) == 0, "zstd: ",
                    std::string_view(ZSTD_isError(size) != 0 ? ZSTD_getErrorName(size) : ""));
  out.resize(size);
  return out;
}

mds_layout layout_of(mds_writer_options const& options) {
  parallel::require(!options.columns.empty(), "an MDS set needs at least one column");
  if (!options.compression.empty()) (void)zstd_level(options.compression);
  auto columns = options.columns;
  std::sort(columns.begin(), columns.end(),
            [](mds_column const& a, mds_column const& b) { return a.name < b.name; });
  mds_layout out;
  for (auto const& column : columns) {
    parallel::require(out.names.empty() || out.names.back() != column.name, "column '", column.name,
                      "' is given twice");
    out.names.push_back(column.name);
    out.encodings.push_back(mds_encoding::parse(column.encoding));
  }
  out.compression = options.compression;
  out.hashes = options.hashes;
  std::sort(out.hashes.begin(), out.hashes.end());
  out.hashes.erase(std::unique(out.hashes.begin(), out.hashes.end()), out.hashes.end());
  for (auto const& algorithm : out.hashes) (void)hash_of(algorithm, "");
  parallel::require(!options.size_limit || *options.size_limit >> 32 == 0,
                    "size_limit must be below 4 GiB: offsets in a shard have 32 bits");
  out.size_limit = options.size_limit;
  if (out.size_limit == std::uint64_t{0}) out.size_limit.reset();
  return out;
}

}  // namespace mpt::data::detail
