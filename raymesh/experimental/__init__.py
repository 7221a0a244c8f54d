"""What Ray calls experimental."""

from raymesh.experimental.locations import get_local_object_locations, get_object_locations

__all__ = ["get_local_object_locations", "get_object_locations"]
