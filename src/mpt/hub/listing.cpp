#include <mpt/hub/listing.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <set>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include <mpt/data/json.hpp>
#include <mpt/hub/repository.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::hub {
namespace {

constexpr std::size_t max_files = 1'000'000;
constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 50;
constexpr int tree_version = 1;

/// Whether `path` stays in the folder that it is relative to.
[[nodiscard]] bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    auto const end = std::min(path.find('/', begin), path.size());
    if (!parallel::is_plain_name(path.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

[[nodiscard]] bool is_digest(std::string_view text, std::size_t digits) {
  return text.size() == digits && parallel::is_hexadecimal(text);
}

void check(listed_file const& file, std::string_view source) {
  parallel::require(is_safe_path(file.path), source, ": lists a file \"", file.path,
                    "\", which leads out of the folder; nothing is downloaded from it");
  parallel::require(is_digest(file.git_id, 40), source, ": the id of \"", file.path,
                    "\" is not 40 hexadecimal digits");
  parallel::require(file.sha256.empty() || is_digest(file.sha256, 64), source,
                    ": the checksum of \"", file.path, "\" is not 64 hexadecimal digits");
  parallel::require(file.size <= max_file_bytes, source, ": \"", file.path, "\" has ", file.size,
                    " bytes, which no file has");
}

}  // namespace

net::expected_content listed_file::content() const {
  if (!sha256.empty())
    return {.size = size, .checksum = net::checksum{digest_kind::sha256, sha256}};
  auto prefix = parallel::concat("blob ", size);
  prefix += '\0';
  return {.size = size, .checksum = net::checksum{digest_kind::sha1, git_id, prefix}};
}

void add_page(listing& files, nlohmann::json const& page, std::string_view source) {
  parallel::require(page.is_array(), source, ": expected a list of files");
  for (auto const& entry : page) {
    if (data::string_member(entry, "type", source) != "file") continue;
    listed_file file;
    file.path = data::string_member(entry, "path", source);
    file.size = data::count_member(entry, "size", source);
    file.git_id = data::string_member(entry, "oid", source);
    if (auto const lfs = entry.find("lfs"); lfs != entry.end() && !lfs->is_null()) {
      file.sha256 = data::string_member(*lfs, "oid", source);
      file.size = data::count_member(*lfs, "size", source);
      parallel::require(!file.sha256.empty(), source, ": \"", file.path, "\" has no checksum");
    }
    if (auto const xet = entry.find("xetHash"); xet != entry.end() && xet->is_string())
      file.xet_hash = xet->get<std::string>();
    check(file, source);
    parallel::require(files.size() < max_files, source, ": lists more than ", max_files, " files");
    files.push_back(std::move(file));
  }
}

void check_paths(listing const& files, std::string_view source) {
  std::set<std::string_view> paths;
  for (auto const& file : files)
    parallel::require(paths.insert(file.path).second, source, ": lists \"", file.path, "\" twice");
  for (auto const& file : files)
    for (auto slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1))
      parallel::require(!paths.contains(std::string_view(file.path).substr(0, slash)), source,
                        ": lists \"", file.path, "\" below a file");
}

std::string tree_text(listing const& files) {
  auto entries = nlohmann::json::object();
  for (auto const& file : files) {
    nlohmann::json entry{{"size", file.size}, {"blob_id", file.git_id}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
    entries[file.path] = std::move(entry);
  }
  nlohmann::json const tree{{"format_version", tree_version}, {"files", std::move(entries)}};
  return tree.dump(1, ' ', true);
}

std::optional<listing> read_tree(std::filesystem::path const& path) {
  if (!parallel::files::exists(path)) return std::nullopt;
  try {
    auto const tree =
        data::parse_json(parallel::read_text_file(path, std::uint64_t{256} << 20), path.native());
    if (data::count_member(tree, "format_version", path.native()) != tree_version)
      return std::nullopt;
    listing files;
    for (auto const& [name, entry] : data::member(tree, "files", path.native()).items()) {
      listed_file file;
      file.path = name;
      file.size = data::count_member(entry, "size", path.native());
      file.git_id = data::string_member(entry, "blob_id", path.native());
      if (entry.contains("lfs_sha256") && !entry["lfs_sha256"].is_null()) {
        file.sha256 = data::string_member(entry, "lfs_sha256", path.native());
        file.size = data::count_member(entry, "lfs_size", path.native());
      }
      if (auto const xet = entry.find("xet_hash"); xet != entry.end() && xet->is_string())
        file.xet_hash = xet->get<std::string>();
      check(file, path.native());
      files.push_back(std::move(file));
    }
    check_paths(files, path.native());
    return files;
  } catch (std::exception const&) {
    return std::nullopt;  // it is fetched again
  }
}

listing matching(listing const& files, std::vector<std::string> const& include,
                 std::vector<std::string> const& exclude) {
  auto const has_match = [](std::vector<std::string> const& patterns, std::string const& path) {
    return std::ranges::any_of(patterns, [&](std::string const& pattern) {
      auto const whole = pattern.ends_with('/') ? pattern + '*' : pattern;
      return ::fnmatch(whole.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
    });
  };
  listing out;
  for (auto const& file : files)
    if ((include.empty() || has_match(include, file.path)) && !has_match(exclude, file.path))
      out.push_back(file);
  return out;
}

namespace {

[[nodiscard]] bool is_weight_file(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".index.json");
}

/// Whether `name` is of the weights that are read: safetensors where the repository has them.
[[nodiscard]] bool is_read_weight_file(std::string_view name, bool has_safetensors) {
  if (name.starts_with("adapter_model.")) return true;
  return has_safetensors ? name.starts_with("model") && name.find(".safetensors") != name.npos
                         : name.starts_with("pytorch_model");
}

[[nodiscard]] bool is_text_file(std::string_view name) {
  constexpr std::array<std::string_view, 4> endings = {".json", ".txt", ".model", ".jinja"};
  return std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

/// Whether the file, or what a link leads to, exists.
[[nodiscard]] bool is_present(std::filesystem::path const& file) {
  std::error_code absent;
  return std::filesystem::exists(file, absent);
}

}  // namespace

listing model_files(listing const& files, weights choice) {
  bool const has_safetensors = std::ranges::any_of(files, [](listed_file const& file) {
    return file.path == "model.safetensors" || file.path == "model.safetensors.index.json";
  });
  listing out;
  for (auto const& file : files) {
    if (file.path.find('/') != std::string::npos) continue;
    bool const is_needed =
        is_weight_file(file.path)
            ? choice == weights::included && is_read_weight_file(file.path, has_safetensors)
            : is_text_file(file.path);
    if (is_needed) out.push_back(file);
  }
  return out;
}

listing tokenizer_files(listing const& files) {
  constexpr std::array<std::string_view, 9> names = {"tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "tokenizer.model",
                                                     "chat_template.jinja",
                                                     "config.json"};
  listing out;
  for (auto const& file : files)
    if (std::ranges::find(names, file.path) != names.end()) out.push_back(file);
  return out;
}

std::string missing_model_file(std::filesystem::path const& folder, weights choice) {
  bool const is_adapter = is_present(folder / "adapter_config.json");
  if (!is_adapter && !is_present(folder / "config.json")) return "config.json";
  if (choice == weights::excluded) return {};
  if (is_adapter)
    return is_present(folder / "adapter_model.safetensors") ||
                   is_present(folder / "adapter_model.bin")
               ? std::string()
               : std::string("adapter_model.safetensors");
  for (std::string const name : {"model.safetensors", "pytorch_model.bin"}) {
    if (is_present(folder / name)) return {};
    auto const index = folder / (name + ".index.json");
    if (!is_present(index)) continue;
    auto const text = parallel::read_text_file(index, std::uint64_t{1} << 28);
    auto const shards =
        data::parse_json(text, index.native()).value("weight_map", nlohmann::json());
    for (auto const& [tensor, shard] : shards.items())
      if (shard.is_string() && !is_present(folder / shard.get<std::string>()))
        return shard.get<std::string>();
    return {};
  }
  return "model.safetensors";
}

std::string missing_tokenizer_file(std::filesystem::path const& folder) {
  return is_present(folder / "tokenizer.json") ? std::string() : std::string("tokenizer.json");
}

}  // namespace mpt::hub
