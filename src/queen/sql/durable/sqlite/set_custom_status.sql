-- Sets or clears the custom status and raises its version by one.
update instances set custom_status = :value, custom_status_version = custom_status_version + 1
where instance = :instance
