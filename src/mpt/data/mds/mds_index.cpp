#include <mpt/data/mds/mds_index.hpp>

#include <exception>
#include <set>
#include <utility>

#include <mpt/data/json.hpp>

namespace mpt::data {
namespace {

[[nodiscard]] std::vector<std::string> string_list(nlohmann::json const& object, char const* key,
                                                   std::string_view location) {
  auto const& list = member(object, key, location);
  parallel::require(list.is_array() && list.size() <= 1024, location, ": \"", key,
                    "\" is not a list of at most 1024 strings");
  std::vector<std::string> out;
  for (auto const& element : list) {
    parallel::require(element.is_string(), location, ": \"", key,
                      "\" holds an element that is not a string");
    out.push_back(element.get<std::string>());
  }
  return out;
}

[[nodiscard]] mds_encoding encoding_named(std::string_view encoding, std::string_view column,
                                          std::string_view location) {
  try {
    return mds_encoding::parse(encoding);
  } catch (parallel::error const& problem) {
    parallel::fail(location, ": column '", column, "': ", std::string_view(problem.what()));
  }
}

[[nodiscard]] mds_file file_from_json(nlohmann::json const& object, std::string_view location) {
  mds_file out;
  out.basename = string_member(object, "basename", location);
  parallel::require(is_plain_path(out.basename), location, ": file name ",
                    nlohmann::json(out.basename).dump(-1, ' ', true),
                    " is not a plain relative name");
  out.bytes = count_member(object, "bytes", location);
  auto const& hashes = member(object, "hashes", location);
  parallel::require(hashes.is_object(), location, ": \"hashes\" of a file is not an object");
  for (auto const& [algorithm, digest] : hashes.items()) {
    parallel::require(digest.is_string(), location, ": a digest is not a string");
    out.hashes[algorithm] = digest.get<std::string>();
  }
  return out;
}

[[nodiscard]] nlohmann::json file_to_json(mds_file const& file) {
  auto hashes = nlohmann::json::object();
  for (auto const& [algorithm, digest] : file.hashes) hashes[algorithm] = digest;
  return {{"basename", file.basename}, {"bytes", file.bytes}, {"hashes", hashes}};
}

}  // namespace

bool is_plain_path(std::string_view name) {
  if (name.empty() || name.size() > 4096) return false;
  for (std::size_t begin = 0;;) {
    auto const slash = name.find('/', begin);
    auto const part = name.substr(begin, slash == std::string_view::npos ? slash : slash - begin);
    if (part.empty() || part == "." || part == "..") return false;
    for (char const character : part)
      if (static_cast<unsigned char>(character) < 0x20 || character == '\\') return false;
    if (slash == std::string_view::npos) return true;
    begin = slash + 1;
  }
}

std::size_t mds_layout::column(std::string_view name) const {
  std::string known;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
    known += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  parallel::fail("there is no column '", name, "' in this MDS set; it has ", known);
}

nlohmann::json mds_layout::to_json() const {
  auto encoding_names = nlohmann::json::array();
  auto sizes = nlohmann::json::array();
  for (auto const& encoding : encodings) {
    encoding_names.push_back(encoding.name);
    sizes.push_back(encoding.fixed_bytes ? nlohmann::json(*encoding.fixed_bytes) : nullptr);
  }
  return {
      {"version", 2},
      {"format", "mds"},
      {"compression", compression.empty() ? nlohmann::json(nullptr) : nlohmann::json(compression)},
      {"hashes", hashes},
      {"size_limit", size_limit ? nlohmann::json(*size_limit) : nullptr},
      {"column_names", names},
      {"column_encodings", encoding_names},
      {"column_sizes", sizes}};
}

mds_layout mds_layout::from_json(nlohmann::json const& object, std::string_view location) {
  auto const version = count_member(object, "version", location);
  parallel::require(version == 2, location, ": MDS version ", version, "; only version 2 is known");
  auto const format = string_member(object, "format", location);
  parallel::require(format == "mds", location, ": format '", format, "'; only 'mds' is known");
  mds_layout out;
  auto const& compression = member(object, "compression", location);
  parallel::require(compression.is_null() || compression.is_string(), location,
                    ": \"compression\" is neither null nor a string");
  if (compression.is_string()) out.compression = compression.get<std::string>();
  auto const& limit = member(object, "size_limit", location);
  out.size_limit.reset();
  if (!limit.is_null()) out.size_limit = count_member(object, "size_limit", location);
  out.hashes = string_list(object, "hashes", location);
  out.names = string_list(object, "column_names", location);
  auto const encodings = string_list(object, "column_encodings", location);
  auto const& sizes = member(object, "column_sizes", location);
  parallel::require(!out.names.empty() && encodings.size() == out.names.size() &&
                        sizes.is_array() && sizes.size() == out.names.size(),
                    location, ": column_names, column_encodings and column_sizes do not match");
  for (std::size_t i = 0; i < encodings.size(); ++i) {
    auto encoding = encoding_named(encodings[i], out.names[i], location);
    auto const& size = sizes[i];
    bool const has_expected_size = encoding.fixed_bytes
                                       ? size.is_number_unsigned() && size == *encoding.fixed_bytes
                                       : size.is_null();
    parallel::require(has_expected_size, location, ": column '", out.names[i], "' of encoding '",
                      encodings[i], "' declares size ", size.dump(), ", expected ",
                      encoding.fixed_bytes ? std::to_string(*encoding.fixed_bytes) : "null");
    out.encodings.push_back(std::move(encoding));
  }
  return out;
}

nlohmann::json mds_shard::to_json() const {
  auto out = layout.to_json();
  out["samples"] = samples;
  out["raw_data"] = file_to_json(raw);
  out["zip_data"] = zip ? file_to_json(*zip) : nlohmann::json(nullptr);
  return out;
}

mds_shard mds_shard::from_json(nlohmann::json const& object, std::string_view location) {
  mds_shard out;
  out.layout = mds_layout::from_json(object, location);
  out.samples = count_member(object, "samples", location);
  out.raw = file_from_json(member(object, "raw_data", location), location);
  auto const& zip = member(object, "zip_data", location);
  if (!zip.is_null()) out.zip = file_from_json(zip, location);
  parallel::require(out.zip.has_value() == !out.layout.compression.empty(), location,
                    ": \"zip_data\" and \"compression\" contradict each other");
  constexpr auto limit = std::uint64_t{1} << 32;
  parallel::require(out.raw.bytes < limit && (!out.zip || out.zip->bytes < limit), location,
                    ": a shard file has 4 GiB or more, which the format cannot address");
  parallel::require(out.samples <= out.raw.bytes / 4, location, ": ", out.samples,
                    " samples cannot be in a shard of ", out.raw.bytes, " bytes");
  return out;
}

std::vector<mds_shard> parse_mds_index(std::string_view text, std::string_view location) {
  std::vector<mds_shard> out;
  std::exception_ptr problem;  // told after one of the version, which follows the shards
  auto const root = parse_json_in_parts(
      text, location, "shards", [&](std::string const&, nlohmann::json&& object) {
        if (!problem) try {
            out.push_back(
                mds_shard::from_json(object, parallel::concat(location, ": shard ", out.size())));
          } catch (parallel::error const&) {
            problem = std::current_exception();
          }
      });
  auto const version = count_member(root, "version", location);
  parallel::require(version == 2, location, ": index version ", version,
                    "; only version 2 is known");
  parallel::require(member(root, "shards", location).is_array(), location,
                    ": \"shards\" is not a list");
  if (problem) std::rethrow_exception(problem);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < out.size(); ++i)
    parallel::require(names.insert(out[i].raw.basename).second, location, ": shard ", i, ": ",
                      nlohmann::json(out[i].raw.basename).dump(-1, ' ', true),
                      " is the file of another shard, too");
  return out;
}

std::string print_mds_index(std::vector<mds_shard> const& shards) {
  auto list = nlohmann::json::array();
  for (auto const& shard : shards) list.push_back(shard.to_json());
  return python_json({{"version", 2}, {"shards", list}});
}

}  // namespace mpt::data
