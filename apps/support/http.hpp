// The HTTP client of trackers, by libcurl if CMake found it.
#pragma once

#include <mpt/trackers/http.hpp>

namespace apps {

/// Empty in a build without the library, which then refuses loggers.mlflow.
[[nodiscard]] mpt::trackers::http_client http_client();

}  // namespace apps
