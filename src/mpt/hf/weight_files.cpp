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
    safetensors_.emplace(path);
  } else if (fs::exists(single)) {
    open(single);
  } else {
    open_shards(path, index_path);
  }
  if (!safetensors_) return;
  for (auto const& stored : safetensors_->names()) {
    bool const is_new = stored_names_.emplace(unwrapped_name(stored), stored).second;
    parallel::require(is_new, name_, ": two tensors are named \"",
                      printable(unwrapped_name(stored)), "\", of which one is \"",
                      printable(stored), "\"");
  }
}

std::vector<std::string> weight_files::names() const {
  std::vector<std::string> out;
  for (auto const& [tensor, stored] : stored_names_) out.push_back(tensor);
  for (auto const& [tensor, location] : locations_) out.push_back(tensor);
  return out;
}

bool weight_files::contains(std::string const& tensor) const {
  return stored_names_.contains(tensor) || locations_.contains(tensor);
}

std::vector<index> const& weight_files::shape_of(std::string const& tensor) const {
  return safetensors_ ? safetensors_->at(stored_name(tensor)).extents
                      : location_of(tensor).second->extents;
}

parallel::checkpoint::element_type weight_files::type_of(std::string const& tensor) const {
  return safetensors_ ? safetensors_->at(stored_name(tensor)).type
                      : location_of(tensor).second->type;
}

std::string const& weight_files::type_name_of(std::string const& tensor) const {
  return safetensors_ ? safetensors_->at(stored_name(tensor)).type_name
                      : location_of(tensor).second->type_name;
}

parallel::checkpoint::tensor_metadata weight_files::metadata() const {
  if (!safetensors_ || stored_names_.empty()) return {};
  return safetensors_->file_of(stored_names_.begin()->second).metadata();
}

std::optional<nlohmann::json> weight_files::config() const {
  return files_.empty() ? std::nullopt : files_.front().config();
}

weight_files::tensor_location const& weight_files::location_of(std::string const& tensor) const {
  auto const found = locations_.find(tensor);
  parallel::require(found != locations_.end(), name_, ": has no tensor \"", tensor, "\"");
  return found->second;
}

std::string const& weight_files::stored_name(std::string const& tensor) const {
  auto const found = stored_names_.find(tensor);
  return found == stored_names_.end() ? tensor : found->second;
}

torch_file const& weight_files::open(std::filesystem::path const& path) {
  auto const& file = files_.emplace_back(path);
  for (auto const& [tensor, entry] : file.tensors()) {
    bool const is_new =
        locations_.emplace(unwrapped_name(tensor), tensor_location{&file, &entry}).second;
    parallel::require(is_new, name_, ": two of its files hold tensor \"", printable(tensor), "\"");
  }
  return file;
}

void weight_files::open_shards(std::filesystem::path const& folder,
                               std::filesystem::path const& index_path) {
  namespace pc = parallel::checkpoint;
  auto const& index_name = index_path.native();
  auto const json =
      pc::parse_json(parallel::read_text_file(index_path, pc::max_safetensors_header), index_name);
  auto const& map = pc::member(json, "weight_map", index_name);
  parallel::require(map.is_object() && !map.empty(), index_name,
                    ": \"weight_map\" must be an object naming each tensor's file");
  std::map<std::string, torch_file const*> opened;
  std::size_t named = 0;
  for (auto const& [tensor, value] : map.items()) {
    parallel::require(value.is_string() && parallel::is_plain_name(value.get<std::string>()),
                      index_name, ": \"weight_map\": the file of \"", printable(tensor),
                      "\" must be a plain file name");
    auto const file = value.get<std::string>();
    if (!opened.contains(file)) opened[file] = &open(folder / file);
    // A tensor that its file does not have, such as a buffer that is computed, is absent.
    if (opened.at(file)->tensors().contains(tensor)) ++named;
  }
  parallel::require(named == locations_.size(), index_name, ": names ", named,
                    " of the tensors in its files, which hold ", locations_.size());
}

}  // namespace mpt::hf
