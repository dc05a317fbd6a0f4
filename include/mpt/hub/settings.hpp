// settings: where the Hugging Face Hub and its cache are, as its own programs are told by the
// environment.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace mpt::hub {

struct settings {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;  ///< the folder of models--org--name and so on
  std::string token;            ///< empty: none
  std::string token_source;     ///< where the token is from, for errors
  bool offline = false;
  std::chrono::seconds idle_timeout{30};  ///< of a connection over which no byte comes
};

/// The value of a variable of the environment, or nothing.
using environment = std::function<std::optional<std::string>(std::string const& name)>;

/// The value of a variable in this process's environment, or nothing.
[[nodiscard]] std::optional<std::string> process_environment(std::string const& name);

/// Reads HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, XDG_CACHE_HOME, HF_HUB_OFFLINE,
/// TRANSFORMERS_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH
/// and HOME; without a token among them, the token file that `hf auth login` writes.
[[nodiscard]] settings read_settings(environment const& variables = process_environment);

}  // namespace mpt::hub
