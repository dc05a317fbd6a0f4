#include <mpt/hf/weight_files.hpp>

#include <mpt/hf/is_model.hpp>
#include <mpt/hf/names.hpp>

namespace mpt::hf {

weight_files::weight_files(std::filesystem::path const& path) : name_(path.native()) {
  namespace fs = std::filesystem;
  auto const index_path = path / "pytorch_model.bin.index.json";
  auto const single = path / "pytorch_model.bin";
  if (is_torch_file(path)) {
    open(path);
  } else if (fs::exists(path / "model.safetensors") ||
             fs::exists(path / "model.safetensors.index.json") ||
             !(fs::exists(single) || fs::exists(index_path))) {
    safe_.emplace(path);
  } else if (fs::exists(single)) {
    open(single);
  } else {
    open_shards(path, index_path);
  }
  if (!safe_) return;
  for (auto const& stored : safe_->names()) {
    bool const first = stored_.emplace(unwrapped_name(stored), stored).second;
    parallel::require(first, name_, ": two tensors are named \"", printable(unwrapped_name(stored)),
                      "\", of which one is \"", printable(stored), "\"");
  }
}

std::vector<std::string> weight_files::names() const {
  std::vector<std::string> out;
  for (auto const& [tensor, stored] : stored_) out.push_back(tensor);
  for (auto const& [tensor, where] : place_) out.push_back(tensor);
  return out;
}

bool weight_files::contains(std::string const& tensor) const {
  return stored_.contains(tensor) || place_.contains(tensor);
}

std::vector<index> const& weight_files::shape_of(std::string const& tensor) const {
  return safe_ ? safe_->at(stored(tensor)).extents : at(tensor).second->extents;
}

parallel::checkpoint::element_type weight_files::type_of(std::string const& tensor) const {
  return safe_ ? safe_->at(stored(tensor)).type : at(tensor).second->type;
}

std::string const& weight_files::type_name_of(std::string const& tensor) const {
  return safe_ ? safe_->at(stored(tensor)).type_name : at(tensor).second->type_name;
}

std::optional<nlohmann::json> weight_files::config() const {
  return files_.empty() ? std::nullopt : files_.front().config();
}

weight_files::place const& weight_files::at(std::string const& tensor) const {
  auto const found = place_.find(tensor);
  parallel::require(found != place_.end(), name_, ": has no tensor \"", tensor, "\"");
  return found->second;
}

std::string const& weight_files::stored(std::string const& tensor) const {
  auto const found = stored_.find(tensor);
  return found == stored_.end() ? tensor : found->second;
}

torch_file const& weight_files::open(std::filesystem::path const& path) {
  auto const& file = files_.emplace_back(path);
  for (auto const& [tensor, entry] : file.tensors()) {
    bool const first = place_.emplace(unwrapped_name(tensor), place{&file, &entry}).second;
    parallel::require(first, name_, ": two of its files hold tensor \"", printable(tensor), "\"");
  }
  return file;
}

void weight_files::open_shards(std::filesystem::path const& folder,
                               std::filesystem::path const& index_path) {
  namespace pc = parallel::checkpoint;
  auto const& where = index_path.native();
  auto const json =
      pc::parse_json(parallel::read_text_file(index_path, pc::max_safetensors_header), where);
  auto const& map = pc::member(json, "weight_map", where);
  parallel::require(map.is_object() && !map.empty(), where,
                    ": \"weight_map\" must be an object naming each tensor's file");
  std::map<std::string, torch_file const*> opened;
  for (auto const& [tensor, value] : map.items()) {
    parallel::require(value.is_string() && parallel::is_plain_name(value.get<std::string>()), where,
                      ": \"weight_map\": the file of \"", printable(tensor),
                      "\" must be a plain file name");
    auto const file = value.get<std::string>();
    if (!opened.contains(file)) opened[file] = &open(folder / file);
    parallel::require(opened.at(file)->tensors().contains(tensor), where, ": tensor \"",
                      printable(tensor), "\" should be in ", printable(file), ", but is not");
  }
  parallel::require(map.size() == place_.size(), where, ": names ", map.size(),
                    " tensors, but its files hold ", place_.size());
}

}  // namespace mpt::hf
