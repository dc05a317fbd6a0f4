// Exchanges over http and https, by libcurl if CMake found it.
#pragma once

#include <mpt/net/http.hpp>

namespace apps {

/// Empty in a build without the library, with which no http_client can be made.
[[nodiscard]] mpt::net::http_transport http_transport();

}  // namespace apps
