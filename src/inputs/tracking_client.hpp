// The HTTP client of trackers.
#pragma once

#include <mpt/trackers/http.hpp>

namespace apps {

/// A client with the credentials and certificates that MLflow's own client takes from the
/// environment. It follows no redirect, which could lead them elsewhere. Empty in a build without
/// libcurl.
[[nodiscard]] mpt::trackers::http_client tracking_client();

}  // namespace apps
