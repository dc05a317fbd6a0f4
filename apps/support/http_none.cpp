#include "support/http.hpp"

mpt::trackers::http_client apps::http_client() { return {}; }
