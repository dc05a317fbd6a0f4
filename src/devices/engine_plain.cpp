#include <devices/engine.hpp>

apps::engine apps::library_product() { return own_product(); }
