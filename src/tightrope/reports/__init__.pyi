from .index import write_index as write_index
from .page import certificate_page as certificate_page, write_page as write_page
from .study import study_page as study_page, write_study_page as write_study_page
