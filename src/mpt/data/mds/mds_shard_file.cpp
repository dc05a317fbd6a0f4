#include <mpt/data/mds/mds_shard_file.hpp>

#include <cstring>
#include <span>
#include <utility>

#include <zstd.h>

#include <mpt/data/hash.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data {

mds_sample::mds_sample(mds_layout const& layout, std::string bytes, std::string location)
    : layout_(&layout), location_(std::move(location)), bytes_(std::move(bytes)) {
  std::uint64_t lengths = 0;
  for (auto const& encoding : layout.encodings) lengths += encoding.fixed_bytes ? 0 : 4;
  parallel::require(lengths <= bytes_.size(), location_, ": ", bytes_.size(),
                    " bytes are too few for its column lengths");
  std::uint64_t offset = lengths;
  std::size_t next_length = 0;
  for (auto const& encoding : layout.encodings) {
    std::uint64_t size = encoding.fixed_bytes.value_or(0);
    if (!encoding.fixed_bytes) {
      size = detail::load<std::uint32_t>(bytes_.data() + next_length);
      next_length += 4;
    }
    parallel::require(size <= bytes_.size() - offset, location_, ": a column of ", size,
                      " bytes does not fit in the ", bytes_.size() - offset, " left");
    starts_.push_back(offset);
    offset += size;
  }
  starts_.push_back(offset);
  parallel::require(offset == bytes_.size(), location_, ": has ", bytes_.size() - offset,
                    " bytes beyond its columns");
}

std::string_view mds_sample::bytes(std::size_t column) const& {
  return std::string_view(bytes_).substr(starts_[column], starts_[column + 1] - starts_[column]);
}

std::string_view mds_sample::bytes(std::string_view column) const& {
  return bytes(layout_->column(column));
}

std::string mds_sample::text(std::string_view column) && {
  return std::string(static_cast<mds_sample const&>(*this).bytes(column));
}

nlohmann::json mds_sample::json(std::string_view column) const {
  return parse_json(bytes(column), location_);
}

mds_array mds_sample::array(std::string_view column) const& {
  auto const index = layout_->column(column);
  return layout_->encodings[index].decode_array(bytes(index), location_);
}

mds_shard_file::mds_shard_file(std::filesystem::path const& folder, mds_shard const& shard,
                               bool check_hashes)
    : shard_(&shard) {
  auto const raw = folder / shard.raw.basename;
  bool const unpacked = !shard.zip || (!std::filesystem::exists(folder / shard.zip->basename) &&
                                       std::filesystem::exists(raw));
  if (unpacked) {
    file_.emplace(raw);
    parallel::require(file_->size() == shard.raw.bytes, file_->name(), ": has ", file_->size(),
                      " bytes, index.json says ", shard.raw.bytes,
                      ": the file is incomplete or belongs to another set");
    name_ = file_->name();
    if (check_hashes && !shard.raw.hashes.empty())
      require_hashes(parallel::read_text_file(raw, shard.raw.bytes), shard.raw);
  } else {
    decompress(folder / shard.zip->basename);
  }
  check_header();
}

mds_sample mds_shard_file::sample(std::uint64_t index) const {
  auto const begin = offsets_[index];
  std::string bytes(offsets_[index + 1] - begin, '\0');
  auto location = parallel::concat(name_, ", sample ", index);
  read(begin, bytes.data(), bytes.size(), location);
  return {shard_->layout, std::move(bytes), std::move(location)};
}

void mds_shard_file::read(std::uint64_t offset, char* out, std::size_t count,
                          std::string_view content_name) const {
  if (file_)
    return file_->read(offset, std::as_writable_bytes(std::span(out, count)), content_name);
  parallel::require(offset + count <= content_.size(), name_, ": ends inside ", content_name);
  std::memcpy(out, content_.data() + offset, count);
}

void mds_shard_file::require_hashes(std::string_view content, mds_file const& file) const {
  auto const difference = hash_difference(file.hashes, content);
  auto const path = std::filesystem::path(name_).replace_filename(file.basename);
  parallel::require(difference.empty(), path.native(), ": ", difference,
                    ": the file is damaged or belongs to another set; fetch it again");
}

void mds_shard_file::decompress(std::filesystem::path const& path) {
  auto const& layout = shard_->layout;
  name_ = path.native();
  parallel::require(layout.compression.starts_with("zstd"), name_, ": compression '",
                    layout.compression, "' is not supported; write the set with zstd or none");
  auto const packed = parallel::read_text_file(path, shard_->zip->bytes);
  parallel::require(packed.size() == shard_->zip->bytes, name_, ": has ", packed.size(),
                    " bytes, index.json says ", shard_->zip->bytes,
                    ": the file is incomplete or belongs to another set");
  require_hashes(packed, *shard_->zip);
  // The size that the frame declares is checked before memory of the index's size is allocated.
  auto const declared_size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  bool const is_declared =
      declared_size != ZSTD_CONTENTSIZE_UNKNOWN && declared_size != ZSTD_CONTENTSIZE_ERROR;
  parallel::require(!is_declared || declared_size <= shard_->raw.bytes, name_, ": decompresses to ",
                    declared_size, " bytes, index.json says ", shard_->raw.bytes);
  // A frame may declare no size: then zstd's largest possible expansion (4 bytes to 128 KiB) limits
  // it.
  parallel::require(shard_->raw.bytes / (1U << 15) <= packed.size(), name_, ": its ", packed.size(),
                    " bytes cannot become the ", shard_->raw.bytes, " that index.json says");
  parallel::require(is_plausible_expansion(shard_->raw.bytes, packed.size()), name_, ": more than ",
                    max_expansion_ratio, " times its size when decompressed (", shard_->raw.bytes,
                    " bytes of ", packed.size(),
                    "): no tokens, maybe a bomb; if it is meant, decompress it to ",
                    shard_->raw.basename, " next to it and remove it");
  content_.resize(shard_->raw.bytes);
  auto const size = ZSTD_decompress(content_.data(), content_.size(), packed.data(), packed.size());
  parallel::require(ZSTD_isError(size) == 0, name_, ": damaged zstd data: ",
                    std::string_view(ZSTD_isError(size) != 0 ? ZSTD_getErrorName(size) : ""),
                    "; fetch it again");
  parallel::require(size == content_.size(), name_, ": decompresses to ", size,
                    " bytes, index.json says ", shard_->raw.bytes);
  require_hashes(content_, shard_->raw);
}

void mds_shard_file::check_header() {
  auto const bytes = shard_->raw.bytes;
  auto const samples = shard_->samples;
  auto const table = 4 + 4 * (samples + 1);
  parallel::require(table <= bytes, name_, ": ", bytes, " bytes are too few for ", samples,
                    " samples");
  char count[4];
  read(0, count, 4, "the sample count");
  parallel::require(detail::load<std::uint32_t>(count) == samples, name_, ": holds ",
                    detail::load<std::uint32_t>(count), " samples, index.json says ", samples);
  offsets_.resize(samples + 1);
  read(4, reinterpret_cast<char*>(offsets_.data()), 4 * (samples + 1), "the offsets");
  for (std::size_t i = 0; i < samples; ++i)
    parallel::require(offsets_[i] <= offsets_[i + 1], name_, ": offset of sample ", i + 1, " (",
                      offsets_[i + 1], ") is before that of sample ", i, " (", offsets_[i], ")");
  parallel::require(offsets_.front() >= table && offsets_.back() == bytes, name_,
                    ": samples are from byte ", offsets_.front(), " to ", offsets_.back(),
                    ", expected from ", table, " or later to ", bytes);
  auto const header_bytes = offsets_.front() - table;
  parallel::require(header_bytes <= (1U << 20), name_, ": header of ", header_bytes, " bytes");
  std::string header(header_bytes, '\0');
  read(table, header.data(), header.size(), "the header");
  auto const location = name_ + ": header";
  auto const found = mds_layout::from_json(parse_json(header, location), location);
  bool has_same_columns = found.names == shard_->layout.names;
  for (std::size_t i = 0; has_same_columns && i < found.names.size(); ++i)
    has_same_columns = found.encodings[i].name == shard_->layout.encodings[i].name;
  parallel::require(has_same_columns, location, ": columns differ from those in index.json");
}

}  // namespace mpt::data
