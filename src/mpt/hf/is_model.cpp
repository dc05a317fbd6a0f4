#include <mpt/hf/is_model.hpp>

#include <system_error>

namespace mpt::hf {

bool is_torch_file(std::filesystem::path const& path) {
  std::error_code unreadable;  // an unreadable file is no model
  return (path.extension() == ".pt" || path.extension() == ".bin") &&
         std::filesystem::is_regular_file(path, unreadable);
}

bool is_model(std::filesystem::path const& path) {
  return is_torch_file(path) || parallel::files::exists(path / "config.json");
}

}  // namespace mpt::hf
